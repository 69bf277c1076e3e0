"""Links that are cut, wholly or for one plane, and strangers that call."""

import json
import os
import random
import signal
import subprocess
import sys
import time

from tests.e2e.harness import LONG
from tests.faults import strangers
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


def n10(test):
    """Garbage, half-open connections, other versions and runs, recorded handshakes on the control port: ten minutes
    of it with LLMTRAIN_TEST_LONG=1. The job outlasts them, and its agent does not grow."""
    seconds = 600 if LONG else 3
    seed = int(os.environ.get("LLMTRAIN_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}", flush=True)
    steps = 20 * seconds if LONG else 20  # of a tenth of a second or more
    with Cluster(test, overrides=[f"train.duration={steps} steps", "checkpoint.keep_last=3"] if LONG else [],
                 step_ms=100 if LONG else 250) as c:
        c.start_all().wait_for_step(2)
        child = strangers.start(c.network, 1, 0, PORT, seed, seconds, c.run.path / "control")
        resident = []
        while (told := strangers.ended(child)) is None:
            resident.append(c.agents[0].resident_kib())
            time.sleep(0.1)
        for node, agent in c.agents.items():
            test.assertIsNone(agent.process.poll(), f"the agent of node {node} was not to end before the strangers do")
        test.assertLess(max(resident), 20 * 1024, "KiB resident")
        half = len(resident) // 2
        test.assertLess(max(resident[half:]) - max(resident[:half]), 1024, "KiB that the agent has grown by")
        _strangers_were_told(test, told)
        if not LONG:
            c.finish()
            c.assert_same()
        else:
            c.agents[0].signal(signal.SIGTERM)
            c.finish(75)
            c.assert_no_leftovers()
        test.assertEqual(c.incidents(), [])
        test.assertEqual(c.run.events("restart"), [])
        return {**c.record("N10 garbage on the control port"), "verdict": "no incident", "lost_steps": 0}


def _strangers_were_told(test, told):
    """Those who spoke the protocol have heard why they were refused."""
    print(json.dumps(told["calls"]), flush=True)
    for name, words in (("other version", "the agents speak protocol version"), ("other run", "tokens of the two agents differ"),
                        ("replay", "tokens of the two agents differ"),
                        ("insider of another job", "asks for job 'another job'")):
        test.assertIn(words, told["told"].get(name, ""), f"{name}: {told}")


ALL = [n1, n2, n5, n6, n9, n10]
