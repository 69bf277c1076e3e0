"""Failures at awkward moments: in a collective or a save, during a recovery, while the group changes, at the end."""

import json
import os
import re
import signal

from tests.e2e.harness import LONG, wait_until
from tests.faults.cases.common import SAVED, expect_incident
from tests.faults.cluster import Cluster

# Where a rank is killed, at which step, and the step at which the next incarnation goes on; saves are at even
# steps. Each kill comes later than the one before, so that none of them is taken for a crash that comes back.
KILLS = [("reduce", 3, 2), ("optimizer", 5, 4), ("save", 6, 4), ("commit", 8, 6), ("commit_manifest", 10, 8),
         ("commit_rename", 12, 10), ("commit_renamed", 14, 14), ("commit_done", 16, 16)]
if not LONG:  # the others are named by tests/e2e/test_crash.py and tests/checkpoint
    KILLS = [kill for kill in KILLS if kill[0] in ("optimizer", "save", "commit_rename", "commit_renamed")]
IN_A_CALL = 18


def _phases(cluster):
    """{rank: (last finished step, phase)}, as the leader last wrote it."""
    try:
        status = json.loads((cluster.run.path / "control/status.json").read_text())
    except (OSError, ValueError):
        return {}
    return {rank["rank"]: (rank["step"], rank["phase"]) for node in status["nodes"] for rank in node["ranks"]}


def p3(test):
    """kill -9 of a worker in the optimizer, at every arrow of a save and inside a collective, one after the other."""
    culprits = [0 if point.startswith("commit") else 3 for point, _, _ in KILLS]  # rank 0 commits
    faults = [f"{{kind: kill, rank: {rank}, step: {step}, point: {point}, incarnation: {i}}}"
              for i, (rank, (point, step, _)) in enumerate(zip(culprits, KILLS))]
    faults += [f"{{kind: sleep, rank: {rank}, ms: 4500, step: {IN_A_CALL}, point: reduce, incarnation: {len(KILLS)}}}"
               for rank in (0, 1, 2)]
    with Cluster(test, faults=faults, overrides=["checkpoint.interval=2 steps"], step_ms=20) as c:
        c.start_all()
        # The others are not there yet, so it waits for them in the call.
        c.wait_for_step(IN_A_CALL - 1)
        wait_until(lambda: _phases(c).get(3) == (IN_A_CALL - 1, "reducing gradients"), "rank 3 is in the call", 5)
        c.signal(c.worker(3), signal.SIGKILL)
        c.finish()
        c.assert_same()
        test.assertEqual(len(c.incidents()), len(KILLS) + 1)
        for number, (rank, (point, _, resumed)) in enumerate(zip(culprits, KILLS)):
            incident = expect_incident(c, ["signal"], [rank], number)
            test.assertEqual(incident["resumed_step"], resumed, point)  # the commit is complete, or it is not there
        incident = expect_incident(c, ["signal"], [3])
        test.assertIn(f"reducing gradients of step {IN_A_CALL}", incident["verdict"])
        test.expect(0, "ckpt", "verify", c.run.path)
        return c.record("P3 kill -9 in a collective, the optimizer, a save")


def p5(test):
    """A worker dies; another one while the ranks meet again, and a third one while it reads the checkpoint."""
    faults = ["{kind: kill, rank: 3, step: 8}",
              "{kind: kill, rank: 2, step: 0, point: start, incarnation: 1}",
              "{kind: kill, rank: 1, step: 0, point: load, incarnation: 2}"]
    with Cluster(test, faults=faults) as c:
        c.start_all().finish()
        c.assert_same()
        test.assertEqual(len(c.incidents()), 3)
        for number, rank in enumerate((3, 2, 1)):
            expect_incident(c, ["signal"], [rank], number)  # three ranks: nothing that comes back
        # The checkpoint cannot be the reason for what happened before it was read.
        test.assertEqual([i["resumed_step"] for i in c.incidents()[:2]], [5, 5])
        test.assertEqual([r["restarts"] for r in c.run.events("restart")], [1, 2, 3])
        return c.record("P5 failures during a recovery")


def _leads(cluster):
    """(epoch, process) of every agent that said that it leads."""
    said = [(agent.pid, agent.err_path.read_text(errors="replace")) for agent in cluster.all_agents]
    return [(int(epoch), pid) for pid, text in said for epoch in re.findall(r"node \d+ leads \(epoch (\d+)\)", text)]


def p8(test):
    """Workers die, then their agent, then the leader while that agent joins again: no epoch has two leaders, and the job goes on."""
    kills = 2 if LONG else 1
    faults = [f"{{kind: kill, rank: {3 - i}, step: {3 + 2 * i}, incarnation: {i}}}" for i in range(kills)]
    faults.append(f"{{kind: sleep, ms: 100, each: step, incarnation: {kills}}}")
    with Cluster(test, faults=faults) as c:
        c.start_all().wait_for_step(SAVED)
        c.signal(c.agents[1].pid, signal.SIGKILL)
        c.agents[1].process.wait()
        c.start(1)
        joined = lambda: sum("has joined" in note["text"] for note in c.run.events("note"))
        wait_until(lambda: joined() == 2, "the node joins for the second time", 30)
        os.kill(c.agents[0].pid, signal.SIGKILL)
        c.agents[0].process.wait()
        c.start(0)
        c.finish()
        c.assert_same()
        incarnations = [row["incarnation"] for row in c.run.events("run_started")]
        test.assertEqual(incarnations, sorted(set(incarnations)), "one count for all agents, whoever leads")
        test.assertGreaterEqual(len(incarnations), kills + 2)
        epochs = sorted(epoch for epoch, _ in _leads(c))
        test.assertGreater(len(epochs), 1)
        test.assertEqual(epochs, list(range(epochs[0], epochs[0] + len(epochs))), "each once, none left out")
        files = sorted(int(path.name.split("-")[1]) for path in c.run.path.glob("control/epoch-*"))
        test.assertEqual(files[-1], epochs[-1])
        return c.record("P8 leader killed while the group changes")


def p20(test):
    """Ranks end seconds before others do, in front of the last barrier and behind it: that is no failure."""
    faults = ["{kind: sleep, rank: 1, ms: 2000, step: 20, point: end}",
              "{kind: sleep, rank: 2, ms: 2500, step: 0, point: leave}"]
    with Cluster(test, faults=faults, step_ms=20) as c:
        c.start_all().finish()
        c.assert_same()
        test.assertEqual(c.incidents(), [])
        test.assertEqual(c.run.events("restart"), [])
        test.assertEqual(c.run.events("worker_exited"), [])
        return {**c.record("P20 ranks end early"), "verdict": "no incident", "lost_steps": 0}


def c9(test):
    """A collective that one rank leaves out, and one in which it has another shape: call, group and rank are named."""
    faults = ["{kind: skip_collective, rank: 2, step: 8, point: reduce}",
              "{kind: wrong_shape, rank: 1, step: 12, point: reduce, incarnation: 1}"]
    with Cluster(test, faults=faults) as c:
        c.start_all().finish()
        c.assert_same()
        test.assertEqual(len(c.incidents()), 2)
        for number, rank in enumerate((2, 1)):
            incident = expect_incident(c, ["missing_call", "mismatched_call"], [rank], number)
            test.assertIn("all_reduce", incident["verdict"])
            test.assertRegex(incident["verdict"], r"(all_reduce|number) \d+ of world")  # that of the step's sums
            before = max(m["time"] for m in c.run.metrics() if m["time"] < incident["time"])
            test.assertLess(incident["time"] - before, 30)
        return c.record("C9 a missing and a mis-shaped collective")


def _pauses(cluster):
    """Seconds from each restart that was decided to the start of its run."""
    times = [row["time"] for row in cluster.run.events("run_started")][1:]
    return [start - row["time"] for row, start in zip(cluster.run.events("restart"), times)]


def _storm_with_progress(test):
    onward = [f"{{kind: exit, code: 9, rank: 1, step: {5 + i}, incarnation: {i}}}" for i in range(10)]
    with Cluster(test, name="onward", faults=onward, overrides=["resilience.max_restarts=3"], step_ms=20) as c:
        c.start_all().finish(66)
        test.assertEqual(len(c.run.events("restart")), 3)
        test.assertEqual(len(c.incidents()), 4)
        expect_incident(c, ["exit"], [1])
        c.assert_no_leftovers()


def c12(test):
    """A worker that dies again and again: with progress the budget ends it, without any it is slowed down and stopped."""
    if LONG:  # tests/e2e/test_crash.py does this on one node
        _storm_with_progress(test)
    again = ["{kind: exit, code: 9, rank: 1, step: 7, incarnation: -1}"]
    limits = ["resilience.max_restarts=50", "resilience.no_progress_limit=5"]
    with Cluster(test, name="again", faults=again, overrides=limits, step_ms=20) as c:
        c.start_all().finish(67)
        test.assertEqual(len(c.run.events("restart")), 5)
        expect_incident(c, ["deterministic_crash"], [1])
        for pause, least in zip(_pauses(c)[2:], (0.1, 0.2, 0.4)):  # doubles from the third one on
            test.assertGreaterEqual(pause, least)
        c.assert_no_leftovers()
        test.expect(0, "ckpt", "verify", c.run.path)
        return c.record("C12 restart storm")


def l2(test):
    """The budget is the job's: a worker's crash has spent it when the leader dies, and its successor knows."""
    faults = ["{kind: kill, rank: 3, step: 6}", "{kind: sleep, ms: 100, each: step, incarnation: 1}"]
    with Cluster(test, faults=faults, overrides=["resilience.max_restarts=1"]) as c:
        c.start_all()
        wait_until(lambda: c.run.events("restart"), "the worker's crash is paid", 60)
        c.wait_for_step(SAVED)
        c.signal(c.agents[0].pid, signal.SIGKILL)
        c.agents[0].process.wait()
        result = c.finish(66, nodes=[1])[1]
        test.assertIn("budget of 1 restart", result.err)
        test.assertEqual(len(c.run.events("restart")), 1)
        expect_incident(c, ["node_lost"])
        c.assert_no_leftovers()
        test.expect(0, "ckpt", "verify", c.run.path)
        return c.record("L2 the restart budget outlives the leader")


def c1_leader(test):
    """The leader dies while the job stops because another agent was told to: its successor stops it too."""
    with Cluster(test, faults=["{kind: sleep, ms: 4000, step: 10}"]) as c:
        c.start_all().wait_for_step(9)
        c.signal(c.agents[1].pid, signal.SIGTERM)
        wait_until(lambda: c.run.events("stop_requested"), "the leader was told", 5)
        os.kill(c.agents[0].pid, signal.SIGKILL)
        c.agents[0].process.wait()
        c.finish((75, 76), nodes=[1])
        c.assert_no_leftovers()
        c.start_all().finish()
        c.assert_same()
        return {**c.record("C1 leader killed during a stop"), "verdict": "75"}


def l8(test):
    """A job that cannot start is tried once: each agent says why, and ends with the code of the reason."""
    for number, (override, word) in enumerate((("data.train=[{path: /no/such/data}]", "/no/such/data"),
                                               ("train.durration=20 steps", "did you mean train.duration"))):
        with Cluster(test, name=f"refused-{number}", overrides=[override, "resilience.max_restarts=3"]) as c:
            results = c.start_all().finish(2)
            for result in results.values():
                test.assertIn(word, result.err)
            test.assertEqual(c.run.events("restart"), [])
            c.assert_no_leftovers()
    return {"case": "L8 a job that cannot start", "detect_ms": None, "recover_ms": None, "lost_steps": None,
            "verdict": "refused"}


ALL = [p3, p5, p8, p20, c9, c12, c1_leader, l2, l8]
