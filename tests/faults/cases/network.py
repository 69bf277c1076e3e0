"""Links that are cut, wholly or for one plane, and strangers that call."""

import json
import os
import random
import signal
import subprocess
import sys
import time

from tests.e2e.harness import LLMTRAIN, LONG, E2eTest, RunDir, Running, wait_until
from tests.faults import strangers
from tests.faults.cases.common import SAVED, expect_incident
from tests.faults.cluster import CONFIG, PORT, Cluster, kill_quietly


def claims(cluster):
    """{epoch: (node, nonce)} as they stand in the run directory."""
    found = {}
    for path in (cluster.run.path / "control").glob("epoch-*"):
        number = path.name.split("-")[1]
        if number.isdigit():
            claim = json.loads(path.read_text())
            cluster.test.assertEqual(claim["epoch"], int(number))
            found[int(number)] = (claim["node"], claim["nonce"])
    return found


def assert_one_history(cluster, earlier=None):
    """Nobody led or wrote beside somebody else.

    `earlier`: claims that were seen before; an epoch that has a leader keeps it."""
    test, led = cluster.test, claims(cluster)
    test.assertEqual(sorted(led), list(range(1, len(led) + 1)))
    test.assertEqual(len({nonce for _, nonce in led.values()}), len(led))
    for epoch, claim in (earlier or {}).items():
        test.assertEqual(led[epoch], claim, f"epoch {epoch}")
    rows = [(row["incarnation"], row["step"]) for row in cluster.run.metrics()]
    test.assertEqual(rows, sorted(set(rows)), "a step was written twice, or by an incarnation that was over")
    saved = [json.loads((path / "manifest.json").read_text()) for path in cluster.run.checkpoints()]
    test.assertEqual(cluster.run.checkpoint_steps(), sorted(set(cluster.run.checkpoint_steps())))
    by_incarnation = [manifest["history"]["epoch"] for manifest in saved]
    test.assertEqual(by_incarnation, sorted(by_incarnation), "a checkpoint of an incarnation that was over")
    incidents = [incident["incarnation"] for incident in cluster.incidents()]
    test.assertEqual(incidents, sorted(incidents))


def restart_who_gave_up(cluster):
    """The side that was cut off may have ended by then: a person or the scheduler starts it again."""
    time.sleep(1)
    for node, agent in list(cluster.agents.items()):
        if agent.process.poll() is not None:
            cluster.test.assertIn(agent.finish().code, (68, 69), str(agent.finish()))
            cluster.start(node)


def n1(test):
    """The link between the nodes is cut for longer than is tolerated, and comes back."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED).mark_fault()
        c.network.link(1, up=False)
        c.wait_for_incident()
        c.network.heal()
        restart_who_gave_up(c)
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


def n3(test):
    """One direction of the link is cut: first the other node hears nothing, then (long) the leader."""
    for deaf in ((1, 0) if LONG else (1,)):
        with Cluster(test, name=f"deaf{deaf}") as c:
            c.start_all().wait_for_step(SAVED).mark_fault()
            before = claims(c)
            c.network.drop(deaf, f"ip saddr {c.network.address(1 - deaf)}")
            c.wait_for_incident()
            c.network.heal()
            restart_who_gave_up(c)
            c.finish()
            c.assert_same()
            assert_one_history(c, before)
            expect_incident(c, ["node_lost", "transport"], number=0)
            row = c.record("N3 one direction cut", 0)
    return row


def n4(test):
    """The link is cut while a checkpoint is committed: before its last rename, which then never comes.

    Long: before the manifest, after the rename, and a commit that goes on while the link is cut."""
    step, forever = 10, 100_000
    for point, ms in [("commit_rename", forever), ("commit_manifest", forever), ("commit_renamed", forever),
                      ("commit_rename", 3000)][:4 if LONG else 1]:
        fault = f"{{kind: sleep, ms: {ms}, rank: 0, step: {step}, point: {point}}}"
        with Cluster(test, name=f"{point}{ms}", faults=[fault]) as c:
            parts, whole = f".step-*{step}.e0.tmp", f"step-*{step}"
            folder = c.run.path / "checkpoints"
            c.start_all()
            if point == "commit_renamed":
                wait_until(lambda: list(folder.glob(whole)), "the checkpoint is renamed")
            else:
                there = "manifest.json" if point == "commit_rename" else "*rank*"
                wait_until(lambda: list(folder.glob(f"{parts}/{there}")), "the commit is at its point")
            c.mark_fault()
            before = claims(c)
            c.network.link(1, up=False)
            c.wait_for_incident()
            if ms == forever:
                test.assertEqual(bool(list(folder.glob(whole))), point == "commit_renamed")
            c.network.heal()
            restart_who_gave_up(c)
            c.finish()
            c.assert_same()
            assert_one_history(c, before)
            test.assertEqual(c.run.checkpoint_steps(), [5, 10, 15, 20])
            row = c.record("N4 link down during a commit", 0)
    return row


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


def n8(test):
    """Everything on the control port takes 100 to 300 ms each way: nobody is taken for lost."""
    with Cluster(test) as c:
        proxy = c.network.delay(0, PORT, 100, 300)
        c.start_all().finish()
        test.assertIsNone(proxy.poll())
        c.assert_same()
        assert_one_history(c)
        test.assertEqual(c.incidents(), [])
        test.assertEqual(len(c.run.events("restart")), 0)
        test.assertNotIn("silent", "".join(agent.finish().err for agent in c.agents.values()))
        return {**c.record("N8 delay and jitter of 200 ms"), "verdict": "no incident", "lost_steps": 0}


def _refused(test, network, node, endpoint, node_rank=None, seconds=3):
    """An agent of a run of its own that is to end by itself."""
    words = [*network.inside(node), LLMTRAIN, "launch", CONFIG, "--nnodes", 2, "--node-rank",
             node if node_rank is None else node_rank, "--rdzv-endpoint", endpoint,
             *E2eTest.sets(f"run.dir={test.folder / f'refused{time.monotonic_ns()}'}", f"launch.join_timeout_s={seconds}")]
    return Running(test, list(map(str, words)))


def n9(test):
    """Endpoints that cannot be: taken, refused, without a route, not resolvable, a name of loopback."""
    holder = ("import socket, time; s = socket.socket(); s.bind(('0.0.0.0', {port})); s.listen(); "
              "print('bound', flush=True); time.sleep(60)").format(port=PORT)
    with Cluster(test) as c:
        net, free = c.network, PORT + 1
        net.hosts_file(0, {"myself": ["127.0.1.1"]})
        other = subprocess.Popen([*net.inside(0), sys.executable, "-c", holder], stdout=subprocess.PIPE)
        try:
            other.stdout.readline()
            here = net.address(0)
            agents = [(_refused(test, net, node, endpoint), code, words) for node, endpoint, code, words in [
                (0, f"{here}:{PORT}", 69, [str(PORT), "(?i)taken"]),
                (1, f"{here}:{free}", None, [f"{here}:{free}", "(?i)refused"]),
                (1, f"10.84.0.1:{free}", None, [f"10.84.0.1:{free}", "(?i)unreachable"]),
                (1, f"no-such-host.invalid:{PORT}", None, ["no-such-host.invalid"]),
                (0, f"myself:{free}", 64, ["myself", r"127\.0\.", "correct /etc/hosts"]),
            ]]
            for agent, code, words in agents:
                result = agent.finish(60)
                test.assertEqual(result.code, result.code or 1 if code is None else code, str(result))
                for word in words:
                    test.assertRegex(result.err, word)
        finally:
            other.kill()
            other.wait()
            other.stdout.close()
        return {**c.record("N9 endpoints that cannot be"), "verdict": "refused"}


def n9b(test):
    """An endpoint that is an IPv6 literal: both planes use it."""
    with Cluster(test) as c:
        test.assertTrue(os.path.exists("/proc/net/if_inet6"), "this host has no IPv6")
        for node in (0, 1):
            c.start(node, endpoint=f"[{c.network.address6(0)}]:{PORT}")
        c.finish()
        c.assert_same()
        return {**c.record("N9b IPv6 endpoint"), "verdict": "no incident", "lost_steps": 0}


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

def n11(test):
    """A host vanishes: no FIN, no reset, nothing. Another one takes its place."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        before = claims(c)
        old = c.agents[1]
        workers = list(old.workers().values())
        c.mark_fault()
        c.network.vanish(1)
        for pid in [old.pid, *workers]:
            kill_quietly(pid)
        old.process.wait()
        c.wait_for_incident()
        silent = [note for note in c.run.events("note") if "no word from" in note["text"]]
        test.assertEqual(len(silent), 1, "that nothing is heard is said before anything is decided")
        c.network.replace(1)
        c.start(1)
        c.finish()
        c.assert_same()
        assert_one_history(c, before)
        expect_incident(c, ["node_lost", "transport"], number=0)
        noticed = round(1000 * (silent[0]["time"] - c.fault_time))  # the incident is when it is given up
        return {**c.record("N11 a host vanishes", 0), "detect_ms": noticed}


ALL = [n1, n2, n3, n4, n5, n6, n8, n9, n10, n11, *([n9b] if LONG else [])]
