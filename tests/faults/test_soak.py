"""A job under random faults until it is done: half an hour with LLMTRAIN_TEST_LONG=1, well under a minute otherwise.

LLMTRAIN_TEST_SEED=n sets the schedule; LLMTRAIN_SOAK_REPLAY=FILE replays the lines that a run has printed;
LLMTRAIN_SOAK=SECONDS,MEAN sets how long steps alone would take, and the mean time between faults.
"""

import itertools
import json
import os
import time

from tests.e2e.harness import LONG, RunDir
from tests.faults import chaos, soak
from tests.faults.cluster import Cluster, FaultTest
from tests.support import main

SECONDS, MEAN_S = map(float, os.environ.get("LLMTRAIN_SOAK", "1400,60" if LONG else "8,2.5").split(","))
# Recovery takes longer than that on a busy machine: without an end to the faults there would be none to the job.
MOST_FAULTS = None if LONG or "LLMTRAIN_SOAK" in os.environ else 6
STEP_MS = 400 if LONG else 100  # the run without faults has as many steps, and need not last as long
POINTS = 0.05  # of effective training time, that the model may be off
NODES, RANKS = 2, 4


class Soak(FaultTest):
    def test_random_faults(self):
        seed = int(os.environ.get("LLMTRAIN_TEST_SEED", time.time_ns() % 1000000 if LONG else 2659))
        steps = max(20, int(SECONDS * 1000 / STEP_MS) // soak.INTERVAL * soak.INTERVAL)
        print(json.dumps({"seed": seed, "steps": steps, "mean_s": MEAN_S}), flush=True)
        job = [*soak.SMALL, f"train.duration={steps} steps"]
        reference = self.reference(job)
        hooked = chaos.hooks(seed, RANKS, 400, 0.15)
        faults = itertools.islice(chaos.schedule(seed, MEAN_S, NODES, RANKS), MOST_FAULTS)
        if os.environ.get("LLMTRAIN_SOAK_REPLAY"):
            with open(os.environ["LLMTRAIN_SOAK_REPLAY"]) as lines:
                faults = chaos.replayed(lines.readlines())
        budget = ["resilience.max_restarts=100000", "resilience.no_progress_limit=1000"]
        with Cluster(self, NODES, overrides=[*job, *budget]) as c:
            c.faults = [f"{{kind: sleep, ms: {STEP_MS}, each: step, incarnation: -1}}", *hooked.values()]
            run = soak.Soak(c, faults, hooked, 60 + 10 * SECONDS)
            run.run()
            report = json.loads(self.expect(0, "report", c.run.path, "--json").out)
            print(json.dumps({"seed": seed, **soak.summary(run, report)}), flush=True)
            soak.judge(self, run, reference)
            if LONG:
                measured, modelled = soak.effective_time(run, report)
                self.assertLess(abs(measured - modelled), POINTS, "effective training time against the model")

    def reference(self, job):
        with Cluster(self, NODES, name="undisturbed", overrides=job, step_ms=1) as c:
            c.start_all().finish(patience=60 + SECONDS)
            return RunDir(c.run.path)


if __name__ == "__main__":
    main.run()
