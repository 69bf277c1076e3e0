"""Jobs that nothing happens to: no incident, no restart, no warning. A hundred of them with LLMTRAIN_TEST_LONG=1.

Each has its own small deadlines, length of steps, and random waits in communication, so that whoever watches has
something to be wrong about; every fifth shares its cores with a process that takes all it gets.
"""

import os
import random
import re
import subprocess
import sys
import time

from tests.e2e.harness import LONG
from tests.faults.cluster import Cluster, FaultTest
from tests.faults.soak import SMALL
from tests.support import main

RUNS = 100 if LONG else 5
HOG = "while True: pass"


class Clean(FaultTest):
    def test_no_false_alarm(self):
        seed = int(os.environ.get("LLMTRAIN_TEST_SEED", time.time_ns() % 1000000))
        rng = random.Random(seed)
        for number in range(RUNS):
            with self.subTest(seed=seed, run=number):
                hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(number % 5 // 4)]
                try:
                    self.one(rng, f"run{number}")
                finally:
                    for hog in hogs:
                        hog.kill()
                        hog.wait()

    def one(self, rng, name):
        jitter = f"{{kind: jitter, ms: {rng.choice([1, 5, 20])}, seed: {rng.randrange(1000)}}}"
        # Some of the hundred are long enough for whoever compares ranks over windows of steps.
        steps = 400 if LONG and name.endswith("5") else rng.choice([5, 10, 20])
        job = [*SMALL, f"train.duration={steps} steps", f"checkpoint.interval={rng.choice([1, 2, 5])} steps",
               f"resilience.hang_min_s={rng.choice([3, 5])}", "monitoring.check_collectives=true"]
        with Cluster(self, name=name, faults=rng.choice([[], [jitter]]), overrides=job, step_ms=rng.choice([1, 1, 30])) as c:
            for agent in c.start_all().finish(patience=600).values():
                self.assertNotRegex(agent.err, re.compile(r"warning|error|silent|lost|stands still|cannot", re.I))
            self.assertEqual(c.incidents(), [])
            self.assertEqual(c.run.events("restart"), [])
            self.assertEqual(c.run.events("straggler"), [])
            self.assertEqual([e for e in c.run.events("note") if e["severity"] != "info"], [])
            self.assertEqual([row["step"] for row in c.run.metrics()], list(range(1, steps + 1)))
            c.assert_no_leftovers()


if __name__ == "__main__":
    main.run()
