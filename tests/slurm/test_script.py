"""The script of `submit --target slurm` on a real Slurm, with a small stand-in for the agent.

The stand-in writes down what it was started with, ends with the code that the test wants, and on USR1 with 75 as an
agent does. What is tested is the script: one agent on each node, signals, requeue, exclusion, chains.
"""

import os
import pathlib
import stat
import subprocess
import unittest

from tests.slurm import rig
from tests.support import main

ROOT = pathlib.Path(os.environ["LLMTRAIN_SOURCE_DIR"])
LLMTRAIN = os.environ["LLMTRAIN"]

# $work/plan: lines `node attempt code`, where `wait` as code means: until a signal comes.
STAND_IN = r"""#!/bin/bash
cd "$(dirname "$0")"
attempt=${SLURM_RESTART_COUNT:-0}
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || attempt=$((SLURM_ARRAY_TASK_ID - 1))
[ -z "${LLMTRAIN_CHAIN_LINK:-}" ] || attempt=$((LLMTRAIN_CHAIN_LINK - 1))
note() { echo "$SLURMD_NODENAME $attempt $*" >>notes; }
note "start $SLURM_NODEID/$SLURM_STEP_NUM_NODES end=${SLURM_JOB_END_TIME:+set} $*"
code=$(awk -v a="$attempt" -v n="$SLURMD_NODENAME" '($1 == n || $1 == "*") && ($2 == a || $2 == "*") {print $3; exit}' plan)
[ "$code" = wait ] || exit "${code:-0}"
trap 'note USR1; exit 75' USR1
trap 'note TERM; exit 76' TERM
for ((i = 0; i < 600; ++i)); do sleep 0.1; done
exit 70
"""


@unittest.skipIf(rig.missing(), rig.missing())
class Script(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = rig.SlurmRig().__enter__()
        cls.addClassCleanup(cls.slurm.__exit__, None, None, None)

    def setUp(self):
        self.work = pathlib.Path(self.slurm.root) / self.id().rpartition(".")[2]
        self.work.mkdir()
        program = self.work / "agent"
        program.write_text(STAND_IN)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def script(self, *settings):
        """The script for configs/cpu_2node.yaml, with the stand-in in place of the agent."""
        sets = [word for setting in settings for word in ("--set", setting)]
        done = subprocess.run(
            [LLMTRAIN, "submit", ROOT / "configs/cpu_2node.yaml", "--target", "slurm", "--dry-run",
             "--set", "run.dir=run", "--set", "launch.slurm.time=5", *sets],
            cwd=self.work, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"launch=({LLMTRAIN} launch ", done.stdout)
        path = self.work / "job.sh"
        path.write_text(done.stdout.replace(f"launch=({LLMTRAIN} ", "launch=(./agent "))
        return path

    def start(self, plan, *settings):
        (self.work / "plan").write_text(plan)
        return self.slurm.submit(self.script(*settings), self.work)

    def notes(self):
        path = self.work / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def log(self):
        return "".join(path.read_text() for path in sorted(self.work.glob("*.log")))

    def wait(self, condition, what):
        try:
            return self.slurm.wait(condition, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\nnotes: {self.notes()}\nlog: {self.log()}") from error

    def wait_for_end(self, job):
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
        return self.wait(lambda: (state := self.slurm.state(job)) in over and state, f"job {job} ends")

    def wait_for_starts(self, attempt):
        self.wait(lambda: sum(f" {attempt} start" in line for line in self.notes()) == 2, f"both nodes in {attempt}")

    def test_sbatch_accepts_it(self):
        script = self.script("launch.slurm.partition=main", "launch.slurm.exclusive=true", "launch.slurm.exclude=[n9]")
        script.write_text(script.read_text().replace("#SBATCH --exclude=n9\n", ""))  # no such node here
        done = self.slurm.run("sbatch", "--test-only", script, cwd=self.work)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("to start at", done.stderr)

    def test_the_notice_is_long_enough_for_the_saves_of_the_run(self):
        (self.work / "run").mkdir()
        (self.work / "run/events.jsonl").write_text('{"event": "checkpoint_saved", "ms": 100500}\ncheckpoint_saved\n')
        self.assertIn("#SBATCH --signal=B:USR1@201\n", self.script().read_text())

    def test_one_agent_on_each_node(self):
        job = self.start("* * 0\n")
        self.assertEqual(self.wait_for_end(job), "COMPLETED", self.log())
        config = ROOT / "configs/cpu_2node.yaml"
        sets = "--set run.dir=run --set launch.slurm.time=5"
        self.assertEqual(sorted(self.notes()), [f"n1 0 start 0/2 end=set launch {config} {sets}",
                                                f"n2 0 start 1/2 end=set launch {config} {sets}"])

    def test_the_notice_reaches_the_agents_and_the_job_is_requeued(self):
        job = self.start("* 0 wait\n* 1 0\n")
        self.wait_for_starts(0)
        self.slurm.run("scancel", "--signal=USR1", "--batch", job, check=True)
        self.wait_for_starts(1)
        self.assertEqual(self.wait_for_end(job), "COMPLETED", self.log())
        self.assertEqual(sorted(line for line in self.notes() if "USR1" in line), ["n1 0 USR1", "n2 0 USR1"])
        self.assertEqual(self.slurm.show(job)["Restarts"], "1")
        self.assertIn("exit code 75: requeue", self.log())

    def test_a_cancelled_job_stays_cancelled(self):
        job = self.start("* * wait\n")
        self.wait_for_starts(0)
        self.slurm.run("scancel", job, check=True)
        self.assertEqual(self.wait_for_end(job), "CANCELLED")
        self.wait(lambda: not self.slurm.jobs(), "nothing is left")
        self.assertFalse([line for line in self.notes() if " 1 start" in line])

    def test_a_hopeless_job_is_not_started_again(self):
        job = self.start("n1 * 71\nn2 * 0\n")
        self.assertEqual(self.wait_for_end(job), "FAILED")
        self.assertEqual(self.slurm.show(job)["ExitCode"], "71:0")
        self.assertIn("exit code 71: not started again", self.log())

    def node_is_excluded(self, code):
        job = self.start(f"n1 0 {code}\n* * 0\n", "launch.nodes=1", "launch.procs_per_node=4")
        self.assertEqual(self.wait_for_end(job), "COMPLETED", self.log())
        self.assertEqual([line.split()[:2] for line in self.notes()], [["n1", "0"], ["n2", "1"]])
        self.assertEqual((self.work / "run/control/excluded-nodes").read_text(), "n1\n")

    def test_a_node_that_cannot_run_the_job_is_excluded(self):
        self.node_is_excluded(64)

    def test_a_node_that_is_suspected_of_wrong_results_is_excluded(self):
        self.node_is_excluded(77)

    def test_requeues_without_a_save_are_limited(self):
        job = self.start("* * 76\n", "launch.slurm.max_chain=1")
        self.assertEqual(self.wait_for_end(job), "FAILED")
        self.assertIn("exit code 76 after 1 requeues: enough", self.log())

    def test_a_chain_of_dependent_jobs(self):
        self.start("* 0 75\n* 1 0\n", "launch.slurm.chain=dependency")
        self.wait_for_starts(1)
        self.wait(lambda: not self.slurm.jobs(), "the rest of the chain is taken back")
        self.assertFalse([line for line in self.notes() if " 2 start" in line], self.notes())

    def test_a_chain_as_an_array(self):
        self.start("* 0 75\n* 1 0\n", "launch.slurm.chain=array", "launch.slurm.max_chain=4")
        self.wait_for_starts(1)
        self.wait(lambda: not self.slurm.jobs(), "the rest of the array is taken back")
        self.assertFalse([line for line in self.notes() if " 2 start" in line], self.notes())

    def test_submit_hands_it_over(self):
        (self.work / "plan").write_text("")
        done = subprocess.run([LLMTRAIN, "submit", ROOT / "configs/cpu_2node.yaml", "--set", "run.dir=run",
                               "--set", "launch.slurm.extra=[--hold]"],
                              cwd=self.work, env=self.slurm.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.assertEqual(self.slurm.state(job), "PENDING")
        self.slurm.run("scancel", job, check=True)

    def test_submit_without_slurm_says_so(self):
        done = subprocess.run([LLMTRAIN, "submit", ROOT / "configs/cpu_2node.yaml"], cwd=self.work,
                              env={"PATH": "/nonexistent"}, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("sbatch is not in PATH", done.stderr)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    main.run()
