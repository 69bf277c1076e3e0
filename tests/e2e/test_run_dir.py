"""The run directory decides what launch does; bad ones are refused and left as they were."""

import os
import resource
import signal
import subprocess
import unittest

from tests.e2e.harness import SMOKE, E2eTest, RunDir
from tests.support import main

SLOW = "faults=[{kind: sleep, ms: 200, each: step}]"


class RunDirectory(E2eTest):
    def test_a_second_launch_is_refused_and_names_the_holder(self):
        running, run = self.start_launch("run", SLOW)
        self.wait_for_step(run, 1, running)
        for command in (["launch", SMOKE, "--set", "run.dir=run"], ["resume", "run"]):
            result = self.expect(69, *command)
            self.assertIn(str(running.pid), result.err)
        running.signal(signal.SIGTERM)
        self.assertEqual(running.finish().code, 75)
        self.assertEqual([r["incarnation"] for r in run.metrics()], [0] * len(run.metrics()))

    def test_resume_never_refuses_a_used_directory(self):
        run, _ = self.launch("run", "train.duration=5 steps")
        before = sorted(p for p in run.path.rglob("*"))
        result = self.expect(2, "launch", SMOKE, *self.sets("run.dir=run", "checkpoint.resume=never"))
        self.assertIn("checkpoint.resume", result.err)
        self.assertEqual(before, sorted(p for p in run.path.rglob("*")))

    def test_resume_without_a_checkpoint_is_65(self):
        self.expect(65, "resume", SMOKE, "--set", "run.dir=run")
        self.assertEqual(RunDir(self.folder / "run").checkpoints(), [])

    def test_resume_of_nothing_is_a_usage_error(self):
        result = self.expect(2, "resume", "nowhere")
        self.assertIn("nowhere", result.err)

    def test_resume_by_job_file_works_too(self):
        running, run = self.start_launch("run", SLOW)
        self.wait_for_step(run, 3, running)
        running.signal(signal.SIGTERM)
        self.assertEqual(running.finish().code, 75)
        self.expect(0, "resume", SMOKE, "--set", "run.dir=run")
        self.assertEqual(run.last_step(), 20)

    def test_resume_with_another_seed_or_batch_is_refused(self):
        run, _ = self.launch("run", "train.duration=5 steps")
        for override in ("run.seed=99", "batch.global_batch_size=16"):
            with self.subTest(override=override):
                result = self.expect(2, "resume", run.path, "--set", override)
                self.assertIn(override.split("=")[0], result.err)

    def test_resume_for_longer_goes_on(self):
        run, _ = self.launch("run", "train.duration=5 steps")
        self.resume(run, "train.duration=8 steps")
        self.assertEqual(run.last_step(), 8)

    def test_symlinks_tilde_and_spaces_in_paths_work(self):
        (self.folder / "real place").mkdir()
        (self.folder / "link").symlink_to("real place")
        self.launch("link/run", "train.duration=6 steps")
        self.assertTrue((self.folder / "real place/run/metrics.jsonl").exists())
        self.env["HOME"] = str(self.folder / "real place")
        self.expect(0, "launch", SMOKE, *self.sets("run.dir=~/home run", "train.duration=6 steps"))
        self.assertTrue((self.folder / "real place/home run/metrics.jsonl").exists())

    def test_a_file_in_the_place_of_the_directory_is_storage(self):
        (self.folder / "run").write_text("mine")
        result = self.expect(72, "launch", SMOKE, "--set", "run.dir=run")
        self.assertIn("run", result.err)
        self.assertEqual((self.folder / "run").read_text(), "mine")

    def test_a_lock_left_by_a_dead_launch_does_not_block(self):
        running, run = self.start_launch("run", SLOW)
        self.wait_for_step(run, 2, running)
        running.signal(signal.SIGKILL)
        running.process.wait()
        self.resume(run)
        self.assertEqual(run.last_step(), 20)


class BadStorage(E2eTest):
    def test_where_no_directory_can_be_made_is_72(self):
        result = self.expect(72, "launch", SMOKE, "--set", "run.dir=/proc/run")
        self.assertIn("/proc/run", result.err)

    def test_a_limit_that_leaves_no_room_for_the_collectives_is_64(self):
        """Of this host, not of the storage: the memory of the collectives is a file to the kernel, and the first
        thing that does not fit."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        words = [os.environ["LLMTRAIN"], "launch", SMOKE, *self.sets("run.dir=run", "resilience.max_restarts=1")]
        done = subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120,
                              preexec_fn=limit)
        self.assertEqual(done.returncode, 64, done.stderr)
        self.assertRegex(done.stderr, r"shared memory .*File too large.* 60000 bytes .*ulimit -f")

    def in_namespace(self, script):
        """Runs `script` with mounts of its own, which end with it; None where that is not allowed."""
        def run(text):
            words = ["unshare", "--mount", "sh", "-euc", text, "sh", os.environ["LLMTRAIN"], SMOKE]
            return subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120)
        if run("mount -t tmpfs tmpfs /mnt").returncode != 0:
            print("mounts are not allowed here: only the stand-ins above were tested")
            return None
        return run(script)

    def test_a_read_only_file_system_is_72(self):
        done = self.in_namespace('mount -t tmpfs -o ro tmpfs /mnt; exec "$1" launch "$2" --set run.dir=/mnt/run')
        if done is not None:
            self.assertEqual(done.returncode, 72, done.stderr)
            self.assertIn("/mnt/run", done.stderr)

    def test_a_full_file_system_is_72(self):
        done = self.in_namespace('mount -t tmpfs -o size=300k tmpfs /mnt; '
                                 'exec "$1" launch "$2" --set run.dir=/mnt/run --set resilience.max_restarts=1')
        if done is not None:
            self.assertEqual(done.returncode, 72, done.stderr)
            self.assertRegex(done.stderr.lower(), "no space|no room|full")


if __name__ == "__main__":
    main.run()
