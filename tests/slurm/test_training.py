"""Real training over the two nodes of a real Slurm: submitted, stopped by USR1, requeued, resumed and finished."""

import json
import os
import pathlib
import subprocess
import unittest

from tests.slurm import rig
from tests.support import main

ROOT = pathlib.Path(os.environ["LLMTRAIN_SOURCE_DIR"])
LLMTRAIN = os.environ["LLMTRAIN"]
STEPS = 20
PATIENCE = 240.0


class SlurmTraining(unittest.TestCase):
    """configs/cpu_2node.yaml under the rig `slurm` of the class."""

    def submit(self, work, *settings):
        sets = [word for setting in settings for word in ("--set", setting)]
        done = subprocess.run([LLMTRAIN, "submit", ROOT / "configs/cpu_2node.yaml", "--set", "run.dir=run",
                               "--set", "launch.slurm.time=10", *sets],
                              cwd=work, env=self.slurm.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def rows(self, work):
        path = work / "run/metrics.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def steps(self, work):
        return [row["step"] for row in self.rows(work)]

    def log(self, work):
        return "".join(path.read_text() for path in sorted(work.glob("*.log")))

    def wait(self, work, condition, what):
        try:
            return self.slurm.wait(condition, what, PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}\nsteps: {self.steps(work)}\nlog: {self.log(work)}") from error

    def finish(self, work, job):
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
        state = self.wait(work, lambda: (found := self.slurm.state(job)) in over and found, "the job ends")
        self.assertEqual(state, "COMPLETED", self.log(work))
        self.assertEqual(self.steps(work)[-1], STEPS)

    def assert_identical(self, work, other):
        last = f"run/checkpoints/step-{STEPS:08d}"
        done = subprocess.run([LLMTRAIN, "ckpt", "diff", work / last, other / last], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("identical", done.stdout)


@unittest.skipIf(rig.missing(), rig.missing())
class Training(SlurmTraining):
    @classmethod
    def setUpClass(cls):
        cls.slurm = rig.SlurmRig().__enter__()
        cls.addClassCleanup(cls.slurm.__exit__, None, None, None)

    def test_usr1_requeues_and_nothing_is_lost(self):
        quiet = self.slurm.root / "undisturbed"
        quiet.mkdir()
        self.finish(quiet, self.submit(quiet))

        work = self.slurm.root / "stopped"
        work.mkdir()
        # Slow steps, so that the signal comes between them; they change no number.
        job = self.submit(work, "faults=[{kind: sleep, ms: 300, step: -1, each: step, incarnation: -1}]")
        self.wait(work, lambda: len(self.steps(work)) >= 3, "some steps")
        self.slurm.run("scancel", "--signal=USR1", "--batch", job, check=True)
        self.wait(work, lambda: self.slurm.show(job).get("Restarts") == "1", "a requeue")
        self.finish(work, job)
        # Every step once: the stop was saved, and the next allocation went on behind it.
        self.assertEqual(self.steps(work), list(range(1, STEPS + 1)))
        self.assert_identical(quiet, work)


if __name__ == "__main__":
    main.run()
