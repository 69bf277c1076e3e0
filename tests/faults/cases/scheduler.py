"""What schedulers do to a job, and what a job does to its surroundings."""

import signal
import time

from tests.faults.cases.common import SAVED
from tests.faults.cluster import Cluster


def c1(test):
    """SIGTERM to one agent: all stop after one step, it is committed, 75; started again it goes on."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        c.signal(c.agents[1].pid, signal.SIGTERM)
        c.finish(75)
        test.assertEqual(c.run.checkpoint_steps()[-1], c.run.last_step())
        stopped_ms = round(1000 * (time.time() - c.fault_time))
        test.assertEqual(c.incidents(), [])
        c.assert_no_leftovers()
        c.start_all().finish()
        c.assert_same()
        return {"case": "C1 SIGTERM", "detect_ms": None, "recover_ms": stopped_ms, "lost_steps": 0, "verdict": "75"}


def c3(test):
    """A second SIGTERM at once: no harm to the former checkpoint, 76 (75 if the save was faster)."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        c.signal(c.agents[0].pid, signal.SIGTERM)
        time.sleep(0.02)
        c.agents[0].signal(signal.SIGTERM)
        results = c.finish((75, 76))
        test.expect(0, "ckpt", "verify", c.run.path)
        c.assert_no_leftovers()
        c.start_all().finish()
        c.assert_same()
        return {"case": "C3 second SIGTERM", "detect_ms": None, "recover_ms": None, "lost_steps": None,
                "verdict": str(results[0].code)}


ALL = [c1, c3]
