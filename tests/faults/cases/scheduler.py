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


def c4(test):
    """A time limit that is shorter than the job, and saves that take a fifth of it: the first one teaches how early
    the last must begin. It is committed before the limit, 75; without a limit the job then goes on."""
    limit_s = 18
    slow = "{kind: sleep, ms: 4000, point: commit, rank: 0, each: step, incarnation: -1}"
    with Cluster(test, faults=[slow], overrides=[f"launch.time_limit={limit_s}"]) as c:
        began = time.time()
        c.start_all().finish(75)
        test.assertEqual([row["signal"] for row in c.run.events("stop_requested")], ["time limit"])
        test.assertEqual(c.incidents(), [])
        last_save, stopped_at = c.run.events("checkpoint_saved")[-1], c.run.last_step()
        test.assertEqual(last_save["step"], stopped_at)
        test.assertLess(last_save["time"], began + limit_s)
        test.assertGreater(stopped_at, 5)  # one save was there to learn from
        test.assertLess(stopped_at, 20)
        c.assert_no_leftovers()
        c.overrides.clear()
        c.faults.clear()
        c.start_all().finish()
        c.assert_same()
        test.assertEqual([row["step"] for row in c.run.metrics()], list(range(1, 21)))
        return {"case": "C4 time limit, slow saves", "detect_ms": None, "recover_ms": None, "lost_steps": 0,
                "verdict": f"75, {began + limit_s - last_save['time']:.1f} s before the limit"}


ALL = [c1, c3, c4]
