"""Processes that die, stop, or never come: workers and agents."""

import os
import signal
import time

from tests.e2e.harness import state_of, wait_until
from tests.faults.cases.common import LONG_STEP_MS, SAVED, expect_incident
from tests.faults.cluster import STEP_MS, Cluster, kill_quietly


def _worker_is_signaled(test, rank, how, kind, case):
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        c.signal(c.worker(rank), how)
        c.finish()
        c.assert_same()
        incident = expect_incident(c, [kind], [rank])
        test.assertEqual(incident["node"], 1)
        return c.record(case), incident["verdict"]


def p1(test):
    """kill -9 of a worker."""
    row, verdict = _worker_is_signaled(test, 3, signal.SIGKILL, "signal", "P1 kill -9 of a worker")
    test.assertIn("SIGKILL", verdict)
    return row


def p2(test):
    """SEGV, ABRT, exit(7) and an uncaught exception, one after the other in one run."""
    faults = [f"{{kind: {kind}, rank: 1, step: {6 + 3 * i}, incarnation: {i}}}"
              for i, kind in enumerate(["segv", "abort", "exit, code: 7", "throw"])]
    with Cluster(test, faults=faults) as c:
        c.start_all().finish()
        c.assert_same()
        for number, word in enumerate(["SIGSEGV", "SIGABRT", "exit 7", "exit"]):
            incident = expect_incident(c, ["signal", "exit"], [1], number)
            test.assertIn(word, incident["verdict"])
        return c.record("P2 SEGV, ABRT, exit(7), exception")


def _is_dead(pid):
    """With its last thread: before that nobody is told."""
    return state_of(pid) == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1


def p4(test):
    """kill -9 of all workers of a node."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        pids = [c.worker(rank) for rank in (2, 3)]
        # At once, as the kernel does it to a group: the agent would kill the second when it sees the first.
        agent = c.agents[1].pid
        os.kill(agent, signal.SIGSTOP)
        c.mark_fault()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: all(_is_dead(pid) for pid in pids), "both are dead", 5)
        os.kill(agent, signal.SIGCONT)
        c.finish()
        c.assert_same()
        expect_incident(c, ["signal"], [2, 3])
        test.assertEqual(len(c.run.events("restart")), 1)
        return c.record("P4 kill -9 of all workers of a node")


def _agent_is_replaced(test, node, how, case, kinds=("node_lost",)):
    with Cluster(test, step_ms=LONG_STEP_MS if how == signal.SIGSTOP else STEP_MS) as c:
        c.start_all().wait_for_step(SAVED)
        old = c.agents[node]
        orphans = list(old.workers().values())
        c.signal(old.pid, how)
        if how == signal.SIGKILL:
            old.process.wait()
            wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in orphans), "its workers are gone", 5)
            c.start(node)
        else:
            # Without a new epoch or an incident the place is not free.
            wait_until(lambda: c.incidents() or len(list(c.run.path.glob("control/epoch-*"))) > 1, "it is missed", 60)
            c.start(node)
        c.finish()
        if how == signal.SIGSTOP:
            kill_quietly(old.pid)
            old.process.wait()
        c.assert_same()
        expect_incident(c, kinds)
        return c.record(case)


def p6(test):
    """kill -9 of the agent that does not lead; it is started again."""
    return _agent_is_replaced(test, 1, signal.SIGKILL, "P6 kill -9 of an agent")


def p7(test):
    """kill -9 of the leader; it is started again."""
    return _agent_is_replaced(test, 0, signal.SIGKILL, "P7 kill -9 of the leader")


def p9(test):
    """SIGSTOP of a worker."""
    return _worker_is_signaled(test, 2, signal.SIGSTOP, "stopped", "P9 SIGSTOP of a worker")[0]


def p10(test):
    """SIGSTOP of the agent that does not lead; another one takes its place."""
    return _agent_is_replaced(test, 1, signal.SIGSTOP, "P10 SIGSTOP of an agent")


def p11(test):
    """A stopped agent is continued after another one has taken its place: it ends with 69 and writes nothing."""
    with Cluster(test, step_ms=LONG_STEP_MS) as c:
        c.start_all().wait_for_step(SAVED)
        old = c.agents[0]
        c.signal(old.pid, signal.SIGSTOP)
        wait_until(lambda: len(list(c.run.path.glob("control/epoch-*"))) > 1, "a new epoch", 60)
        c.start(0)
        c.finish()
        before = {p: p.stat().st_mtime_ns for p in (c.run.path / "checkpoints").rglob("*")}
        os.kill(old.pid, signal.SIGCONT)
        test.assertEqual(old.finish(60).code, 69)
        test.assertEqual({p: p.stat().st_mtime_ns for p in (c.run.path / "checkpoints").rglob("*")}, before)
        c.assert_same()
        return c.record("P11 a replaced leader wakes up")


def p12(test):
    """SIGSTOP of the leader; another one takes its place."""
    return _agent_is_replaced(test, 0, signal.SIGSTOP, "P12 SIGSTOP of the leader")


def p18(test):
    """A crash that comes back at the same step each time."""
    with Cluster(test, faults=["{kind: exit, code: 7, rank: 1, step: 7, incarnation: -1}"],
                 overrides=["resilience.max_restarts=50", "resilience.no_progress_limit=3"]) as c:
        c.start_all().finish(67)
        test.assertLessEqual(len(c.run.events("restart")), 4)
        test.assertGreaterEqual(len(c.run.events("restart")), 2)
        expect_incident(c, ["exit", "deterministic_crash"], [1])
        c.assert_no_leftovers()
        return c.record("P18 deterministic crash")


def p19(test):
    """A node that joins late, and one that never does: it is named."""
    with Cluster(test) as c:
        c.start(0)
        time.sleep(3)
        c.start(1)
        c.finish()
        c.assert_same()
    with Cluster(test, name="never", overrides=["launch.join_timeout_s=4"]) as c:
        start = time.monotonic()
        result = c.start(0).finish(60)
        test.assertNotEqual(result.code, 0, str(result))
        test.assertLess(time.monotonic() - start, 20)
        test.assertRegex(result.err, r"(?i)(missing|waiting for|has not joined|not joined)")
        return c.record("P19 a node joins late, or never")




ALL = [p1, p2, p4, p6, p7, p9, p10, p11, p12, p18, p19]
