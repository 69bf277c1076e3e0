"""The fault cases: each one is a function that disturbs a run and returns its row of docs/FAULTS.md.

    {"case", "detect_ms", "recover_ms", "lost_steps", "verdict"}

Times are counted from the fault on the clock of this machine. Limits in assertions are generous; the table shows
what was measured.
"""

import os
import random
import signal
import subprocess
import sys
import time

from tests.e2e.harness import wait_until
from tests.faults.cluster import PORT, STEP_MS, Cluster, kill_quietly

SAVED = 8  # a step after the first checkpoint and before the second
LONG_STEP_MS = 600  # workers go on for some seconds while their agent stands still: they must not be done by then


def expect_incident(cluster, kinds, ranks=None, number=-1):
    incident = cluster.incidents()[number]
    cluster.test.assertIn(incident["kind"], kinds, incident["verdict"])
    if ranks is not None:
        cluster.test.assertEqual(incident["first_cause"], ranks, incident["verdict"])
    return incident


# ---- process ----------------------------------------------------------------------------------------------
def p1(test):
    """kill -9 of a worker."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        c.signal(c.worker(3), signal.SIGKILL)
        c.finish()
        c.assert_same()
        incident = expect_incident(c, ["signal"], [3])
        test.assertEqual(incident["node"], 1)
        test.assertIn("SIGKILL", incident["verdict"])
        return c.record("P1 kill -9 of a worker")


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


def p4(test):
    """kill -9 of all workers of a node."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        pids = [c.worker(rank) for rank in (2, 3)]
        c.mark_fault()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
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
        c.assert_same(deaf_leader=how == signal.SIGSTOP and node == 0)
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
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        c.signal(c.worker(2), signal.SIGSTOP)
        c.finish()
        c.assert_same()
        incident = expect_incident(c, ["stopped"], [2])
        test.assertEqual(incident["node"], 1)
        return c.record("P9 SIGSTOP of a worker")


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
        c.assert_same(deaf_leader=True)
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


# ---- network ----------------------------------------------------------------------------------------------
def n1(test):
    """The link between the nodes is cut for longer than is tolerated, and comes back."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED).mark_fault()
        c.network.link(1, up=False)
        c.wait_for_incident()
        c.network.heal()
        # The side that was cut off may have given up by then: a person or the scheduler starts it again.
        time.sleep(1)
        for node, agent in list(c.agents.items()):
            if agent.process.poll() is not None:
                test.assertIn(agent.finish().code, (68, 69), str(agent.finish()))
                c.start(node)
        c.finish()
        c.assert_same()
        expect_incident(c, ["node_lost", "transport"], number=0)
        return c.record("N1 link down", 0)


def n2(test):
    """The link is down for 3 s."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED).mark_fault()
        c.network.link(1, up=False)
        time.sleep(3)
        c.network.heal()
        c.finish()
        c.assert_same()
        test.assertEqual(c.incidents(), [])
        test.assertEqual(len(c.run.events("restart")), 0)
        return {**c.record("N2 link down for 3 s"), "verdict": "no incident", "lost_steps": 0}


def n5(test):
    """Only the control plane is cut: training goes on."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(4)
        for node in (0, 1):
            c.network.drop(node, f"tcp dport {PORT}", f"tcp sport {PORT}")
        before = c.run.last_step()
        time.sleep(5)
        c.network.heal()
        c.finish()
        c.assert_same()
        test.assertEqual(len(c.run.events("restart")), 0)
        test.assertGreater(c.run.last_step(), before)
        return {**c.record("N5 control plane cut"), "verdict": "no incident", "lost_steps": 0}


def n6(test):
    """Only the data plane is cut: no rank is to blame, and the nodes are named."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED).mark_fault()
        for node in (0, 1):
            peer = c.network.address(1 - node)
            c.network.drop(node, f"ip saddr {peer} meta l4proto tcp", keep=[f"tcp dport {PORT}", f"tcp sport {PORT}"])
        c.wait_for_incident()
        c.network.heal()
        c.finish()
        c.assert_same()
        expect_incident(c, ["transport"], number=0)
        return c.record("N6 data plane cut", 0)


def n9(test):
    """Endpoints that cannot be: occupied, not resolvable."""
    holder = ("import socket, time; s = socket.socket(); s.bind(('0.0.0.0', {port})); s.listen(); "
              "print('bound', flush=True); time.sleep(60)").format(port=PORT)
    with Cluster(test, overrides=["launch.join_timeout_s=5"]) as c:
        other = subprocess.Popen([*c.network.inside(0), sys.executable, "-c", holder], stdout=subprocess.PIPE)
        try:
            other.stdout.readline()
            result = c.start(0).finish(60)
        finally:
            other.kill()
            other.wait()
            other.stdout.close()
        test.assertNotEqual(result.code, 0, str(result))
        test.assertIn(str(PORT), result.err)
        test.assertRegex(result.err, r"(?i)taken")
        result = c.start(1, endpoint=f"no-such-host.invalid:{PORT}").finish(60)
        test.assertNotEqual(result.code, 0, str(result))
        test.assertIn("no-such-host.invalid", result.err)
        return {**c.record("N9 endpoints that cannot be"), "verdict": "refused"}


STRANGER = """
import os, random, socket, struct, sys, time
address, seed = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
rng, kept, end = random.Random(seed), [], time.monotonic() + float(sys.argv[4])
while time.monotonic() < end:
    try:
        s = socket.create_connection(address, 1)
        kind = rng.randrange(4)
        if kind == 0: s.sendall(rng.randbytes(rng.randrange(1, 4096)))
        if kind == 1: s.sendall(struct.pack('<I', 0xFFFFFFF0) + b'x' * 1000)
        if kind == 2: s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
        kept.append(s)  # half-open until the other side has had enough
        if len(kept) > 100: kept.pop(0).close()
    except OSError:
        pass
    time.sleep(0.005)
"""


def n10(test):
    """Garbage, oversized and half-open connections on the control port."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(2)
        seed = random.randrange(1 << 30)
        print(f"seed {seed}", flush=True)
        seconds = 600 if os.environ.get("LLMTRAIN_TEST_LONG_FUZZ") == "1" else 5
        subprocess.run([*c.network.inside(1), sys.executable, "-c", STRANGER, c.network.address(0), str(PORT),
                        str(seed), str(seconds)], check=True)
        for agent in c.agents.values():
            if agent.process.poll() is None:
                with open(f"/proc/{agent.pid}/status") as status:
                    resident = [int(line.split()[1]) for line in status if line.startswith("VmRSS:")]
                test.assertLess(resident[0], 30 * 1024, "KiB resident")
        c.finish()
        c.assert_same()
        test.assertEqual(c.incidents(), [])
        return {**c.record("N10 garbage on the control port"), "verdict": "no incident", "lost_steps": 0}


# ---- scheduler --------------------------------------------------------------------------------------------
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


ALL = [p1, p2, p4, p6, p7, p9, p10, p11, p12, p18, p19, n1, n2, n5, n6, n9, n10, c1, c3]
