"""Links that are cut, wholly or for one plane, and strangers that call."""

import os
import random
import subprocess
import sys
import time

from tests.faults.cases.common import SAVED, expect_incident
from tests.faults.cluster import PORT, Cluster


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




ALL = [n1, n2, n5, n6, n9, n10]
