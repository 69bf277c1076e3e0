"""Clocks that are wrong, and that jump."""

import os
import pathlib
import signal
import struct
import time

from tests.faults.cases.common import SAVED, expect_incident
from tests.faults.cases.network import assert_one_history
from tests.faults.cluster import Cluster

DAY = 86_400
SHIM = pathlib.Path(os.environ["LLMTRAIN_BINARY_DIR"]) / "tests/libfault_clock.so"


class Clock:
    """The time of day of one node: `set` makes it wrong by so many seconds, for what runs and what is started."""

    def __init__(self, folder):
        self.path = folder / "clock"
        self.set(0)

    def set(self, seconds):
        with open(self.path, "r+b" if self.path.exists() else "wb") as out:  # the same pages for all who see them
            out.write(struct.pack("<q", seconds))

    def words(self):
        return ["env", f"LD_PRELOAD={SHIM}", f"LLMTRAIN_TEST_CLOCK={self.path}"]


def c6(test):
    """The leader's clock is a day ahead, a minute more, and then a day behind, with a failure before and after."""
    test.assertTrue(SHIM.exists(), SHIM)
    with Cluster(test) as c:
        clock = Clock(test.folder)
        clock.set(DAY)
        c.start(0, under=clock.words())
        c.start(1)
        c.wait_for_step(4)
        clock.set(DAY + 60)
        c.wait_for_step(SAVED)
        test.assertEqual(c.incidents(), [], "a clock is no failure")
        os.kill(c.worker(3), signal.SIGKILL)
        c.wait_for_incident()
        clock.set(-DAY)
        c.wait_for_step(SAVED + 4)
        test.assertEqual(len(c.incidents()), 1, "a clock is no failure")
        os.kill(c.worker(2), signal.SIGKILL)
        c.finish()
        c.assert_same()
        assert_one_history(c)
        test.assertEqual(len(c.incidents()), 2)
        test.assertEqual(len(c.run.events("restart")), 2)
        expect_incident(c, ["signal"], [3], 0)
        expect_incident(c, ["signal"], [2], 1)
        # The shim was there: steps are dated tomorrow. That the clock jumped is not seen in them.
        dates = [row["time"] for row in c.run.metrics()]
        test.assertEqual(dates, sorted(dates))
        test.assertGreater(dates[0] - time.time(), DAY / 2)
        # People who ask what happened are told, in order, and no jump counts for days of work.
        for command in ("report", "status"):
            told = test.expect(0, command, c.run.path).out
            test.assertNotRegex(told, r"(?<![\w.:-])-\d+(\.\d+)? ?(s|ms|min|h|d|%)\b", "a time below zero")
            test.assertNotRegex(told, r"Where \d+d")
        return {**c.record("C6 clock off by a day, jumping"), "verdict": "no incident", "detect_ms": None,
                "recover_ms": None, "lost_steps": 0}


ALL = [c6]
