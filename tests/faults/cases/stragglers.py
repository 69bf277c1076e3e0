"""Ranks that work and are slow: named with what slows them, while the job goes on."""

import json
import signal
import time

from tests.e2e.harness import wait_until
from tests.faults import cgroup
from tests.faults.cases.common import SAVED, needs_cgroup
from tests.faults.cluster import PATIENCE, Cluster

ENOUGH = 60  # steps within which a straggler is named
LONG_JOB = "train.duration=1000 steps"
# Other cases may share the cores: steps are longer then, and what one rank adds is less of them.
SENSITIVE = "resilience.straggler_share=0.1"
ONE_EACH = ("launch.procs_per_node=1", "parallelism={tp: 1, dp: 2}")
COMPUTES = ("model.hidden_size=128", "model.ffn_hidden_size=384", "data.seq_length=128", "batch.global_batch_size=8")


def stragglers(cluster, event="straggler"):
    return cluster.run.events(event)


def wait_for_straggler(cluster):
    """The first that is named; it must be named soon."""
    begin = cluster.run.last_step()
    cluster.mark_fault()
    wait_until(lambda: stragglers(cluster) or cluster.run.last_step() > begin + ENOUGH + 20, "a straggler", PATIENCE)
    cluster.test.assertTrue(stragglers(cluster), f"nobody was named within {ENOUGH} steps")
    found = stragglers(cluster)[0]
    cluster.test.assertLessEqual(found["step"] - begin, ENOUGH)
    return found, found["step"] - begin


def assert_shown(cluster, found):
    """A person sees it in the status of the live run and in its report."""
    test = cluster.test
    who = f"{'ranks' if ',' in found['ranks'] else 'rank'} {found['ranks']} on node {found['node']}"
    status = test.expect(0, "status", cluster.run.path).out
    test.assertRegex(status, rf"straggler +{who}.*{found['cause']}")
    report = json.loads(test.expect(0, "report", cluster.run.path, "--json").out)
    test.assertEqual(report["stragglers"][0]["ranks"], found["ranks"])
    test.assertEqual(report["stragglers"][0]["cause"], found["cause"])


def stop(cluster):
    """It has shown what it was to show. Nothing was taken for a failure."""
    cluster.agents[0].process.send_signal(signal.SIGTERM)
    results = cluster.finish(75)
    cluster.test.assertEqual(cluster.incidents(), [])
    cluster.test.assertEqual(cluster.run.events("restart"), [])
    cluster.assert_no_leftovers()
    return results


def record(cluster, case, found, steps):
    return {"case": case, "detect_ms": round(1000 * (found["time"] - cluster.fault_time)), "recover_ms": None,
            "lost_steps": None, "verdict": f"straggler: {found['cause']}, after {steps} steps"}


def n7(test):
    """What one node sends passes slowly: the node is named, with communication as the cause, until it is mended."""
    with Cluster(test, overrides=[LONG_JOB, SENSITIVE]) as c:
        c.start_all().wait_for_step(SAVED)
        c.network.limit(1, "25mbit")
        found, steps = wait_for_straggler(c)
        test.assertEqual((found["node"], found["cause"]), (1, "communication"), stragglers(c))
        test.assertIn(found["ranks"], ("2, 3", "2", "3"))
        assert_shown(c, found)
        c.network.unlimit(1)
        wait_until(lambda: stragglers(c, "straggler_over"), "it keeps up again", PATIENCE)
        test.assertEqual({(s["node"], s["cause"]) for s in stragglers(c)}, {(1, "communication")})
        results = stop(c)
        test.assertRegex(results[0].err, r"straggler: ranks? [23].* on node 1")
        return record(c, "N7 one node sends slowly", found, steps)


def f1(test):
    """One rank has half of a core."""
    needs_cgroup(test, "cpu")
    job = [LONG_JOB, SENSITIVE, *ONE_EACH, *COMPUTES]
    with cgroup.Cgroup("cpu") as half, Cluster(test, step_ms=1, overrides=job) as c:
        half.limit_cpu(0.5)
        c.start_all().wait_for_step(SAVED)
        half.add(c.worker(1))
        found, steps = wait_for_straggler(c)
        test.assertEqual((found["ranks"], found["node"], found["cause"]), ("1", 1, "compute"), stragglers(c))
        assert_shown(c, found)
        stop(c)
        return record(c, "F1 a rank with half of a core", found, steps)


def f2(test):
    """One rank waits for its data at every step."""
    with Cluster(test, faults=["{kind: sleep, point: data, rank: 1, ms: 20, each: step}"], overrides=[LONG_JOB]) as c:
        c.start_all().wait_for_step(1)
        found, steps = wait_for_straggler(c)
        test.assertEqual((found["ranks"], found["node"], found["cause"]), ("1", 0, "data"), stragglers(c))
        assert_shown(c, found)
        stop(c)
        return record(c, "F2 slow data of one rank", found, steps)


def f3(test):
    """One pipeline stage has three times the layers of the other: that is no straggler."""
    heavier = ["parallelism={pp: 2, tp: 1, dp: 2, stage_layers: [6, 2]}", "train.duration=100 steps", *COMPUTES]
    with Cluster(test, step_ms=1, overrides=heavier) as c:
        c.start_all()
        began = time.time()
        c.finish()
        test.assertEqual(stragglers(c), [])
        test.assertEqual(c.incidents(), [])
        totals = {row["rank"]: row["forward_ms"] for row in c.run.events("phase_totals")}
        test.assertGreater(min(totals[0], totals[1]), 1.5 * max(totals[2], totals[3]), "one stage computes more")
        verdict = f"nobody in 100 steps of {10 * (time.time() - began):.0f} ms"
        return {"case": "F3 a heavier pipeline stage", "detect_ms": None, "recover_ms": None, "lost_steps": None,
                "verdict": verdict}


ALL = [n7, f1, f2, f3]
