"""A node of a real Slurm fails while its step lives on: the job is requeued elsewhere, and the step is fenced."""

import os
import pathlib
import signal
import unittest

from tests.e2e.harness import name_of
from tests.slurm import rig
from tests.slurm.test_training import STEPS, SlurmTraining
from tests.support import main


def node_of(pid):
    """The node in whose name a process of a step runs."""
    for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(b"SLURMD_NODENAME="):
            return entry.partition(b"=")[2].decode()
    return None


@unittest.skipIf(rig.missing(), rig.missing())
class NodeFailure(SlurmTraining):
    @classmethod
    def setUpClass(cls):
        cls.slurm = rig.SlurmRig(nodes=3, slurmd_timeout=6).__enter__()
        cls.addClassCleanup(cls.slurm.__exit__, None, None, None)

    def agents(self, node):
        found = []
        for pid in self.slurm.processes():
            try:
                if name_of(pid) == "llmtrain" and node_of(pid) == node:
                    found.append(pid)
            except OSError:
                continue  # it has just ended
        return found

    def test_a_step_that_outlives_its_node_is_fenced(self):
        quiet = self.slurm.root / "undisturbed"
        quiet.mkdir()
        self.finish(quiet, self.submit(quiet))

        work = self.slurm.root / "failed"
        work.mkdir()
        job = self.submit(work, "faults=[{kind: sleep, ms: 300, step: -1, each: step, incarnation: -1}]")
        self.wait(work, lambda: len(self.steps(work)) >= 3, "some steps")
        self.assertEqual(self.slurm.show(job)["NodeList"], "n[1-2]")
        # To everybody else the node is dead, but what runs there will wake up again.
        zombie, = self.agents("n2")
        os.kill(zombie, signal.SIGSTOP)
        try:
            self.slurm.slurmds["n2"].kill()
            self.wait(work, lambda: self.slurm.show(job).get("Restarts") == "1", "a requeue")
            self.wait(work, lambda: self.slurm.state(job) == "RUNNING", "a new start")
            self.assertEqual(self.slurm.show(job)["NodeList"], "n[1,3]")
            before = self.rows(work)
            self.wait(work, lambda: len(self.rows(work)) > len(before), "a step of the new incarnation")
            self.assertEqual(self.agents("n2"), [zombie])
        finally:
            os.kill(zombie, signal.SIGCONT)
        self.wait(work, lambda: not self.agents("n2"), "the zombie ends")
        self.finish(work, job)
        # It wrote nothing: incarnations follow each other, and each trained its steps in order.
        numbers = [row["incarnation"] for row in self.rows(work)]
        self.assertEqual(numbers, sorted(numbers))
        self.assertGreater(numbers[-1], before[-1]["incarnation"])
        for number in set(numbers):
            steps = [row["step"] for row in self.rows(work) if row["incarnation"] == number]
            self.assertEqual(steps, list(range(steps[0], steps[-1] + 1)))
        self.assertEqual(set(self.steps(work)), set(range(1, STEPS + 1)))
        self.assert_identical(work, quiet)


if __name__ == "__main__":
    main.run()
