"""Nodes that go for good, come back, or are there from the start as spares: C7, and whom to leave out."""

import signal

from tests.e2e.harness import wait_until
from tests.faults.cases.common import SAVED, expect_incident
from tests.faults.cluster import Cluster

AWAY = ("resilience.elastic=true", "launch.join_timeout_s=2")  # how long a lost node is waited for
SUM_ORDER = 2e-5  # relative: what another order of sums may do to a loss


def _start_with_spare(cluster):
    """Two nodes that have saved once, and a third one that waits."""
    cluster.start(0)
    cluster.start(1)
    cluster.wait_for_step(1)
    spare = cluster.start(2, node_rank="none")
    wait_until(lambda: "waiting as a spare" in spare.console(), "the spare waits", 30)
    cluster.wait_for_step(SAVED)
    return spare


def _wait_for_steps_of(cluster, incarnation):
    wait_until(lambda: any(m["incarnation"] == incarnation for m in cluster.run.metrics()),
               f"steps of incarnation {incarnation}", 60)


def _nodes_of(cluster, incarnation):
    return sorted(path.name for path in (cluster.run.path / "logs" / str(incarnation)).glob("node*"))


def _assert_same_up_to_sums(cluster):
    """Every step is there, and its loss is that of the same samples, summed in another order."""
    test = cluster.test
    cluster.assert_no_leftovers()
    losses, expected = cluster.run.losses(), test.undisturbed().losses()
    test.assertEqual(sorted(losses), sorted(expected))
    for step, loss in losses.items():
        test.assertAlmostEqual(loss, expected[step], delta=SUM_ORDER * expected[step], msg=f"step {step}")


def c7_spare(test):
    """An agent is killed while a spare waits: it takes the lost number and ranks."""
    with Cluster(test, nodes=3, nnodes="2:3") as c:
        spare = _start_with_spare(c)
        c.signal(c.agents.pop(1).pid, signal.SIGKILL)
        wait_until(lambda: sorted(spare.workers()) == [2, 3], "the spare has the lost ranks", 60)
        test.assertEqual(sorted(c.agents[0].workers()), [0, 1])
        c.finish()
        c.assert_same()
        expect_incident(c, ["node_lost"])
        return c.record("C7 a spare takes a lost node's place")


def c7_elastic(test):
    """A node goes for good: its job goes on with half of the replicas and, once it is back, with all of them."""
    with Cluster(test, nnodes="1:2", overrides=AWAY) as c:
        c.start_all().wait_for_step(SAVED)
        c.signal(c.agents.pop(1).pid, signal.SIGKILL)
        _wait_for_steps_of(c, 1)
        test.assertEqual(_nodes_of(c, 1), ["node0"])
        spec = (c.run.path / "spec-1.yaml").read_text()
        test.assertRegex(spec, r"dp: 1\n")
        test.assertRegex(spec, r"global_batch_size: 16\n")
        test.assertRegex(spec, r"gradient_accumulation_steps: 8\n")
        c.start(1)
        _wait_for_steps_of(c, 2)
        test.assertEqual(_nodes_of(c, 2), ["node0", "node1"])
        c.finish()
        _assert_same_up_to_sums(c)
        expect_incident(c, ["node_lost"])
        test.assertEqual(len(c.incidents()), 1)  # growing is no failure
        return c.record("C7 an elastic job shrinks and grows")


def c7_below_min(test):
    """Fewer nodes are left than MIN: the job waits until the deadline and ends with 68."""
    with Cluster(test, overrides=["resilience.elastic=true", "launch.join_timeout_s=3"], nnodes="2:2") as c:
        c.start_all().wait_for_step(SAVED)
        c.signal(c.agents.pop(1).pid, signal.SIGKILL)
        result = c.finish(68)[0]
        test.assertIn("node 1 did not come within 3 s", result.err)
        test.assertEqual(c.run.checkpoint_steps()[-1], 5)
        c.assert_no_leftovers()
        return c.record("C7 fewer nodes than MIN")


def l7(test):
    """A node of an elastic job is asked to stop: it saves and leaves, the other goes on, and both when it is back."""
    with Cluster(test, nnodes="1:2", overrides=AWAY) as c:
        c.start_all().wait_for_step(SAVED)
        leaver = c.agents.pop(1)
        c.signal(leaver.pid, signal.SIGTERM)
        test.assertEqual(leaver.finish(60).code, 75)
        _wait_for_steps_of(c, 1)
        test.assertEqual(_nodes_of(c, 1), ["node0"])
        c.start(1)
        _wait_for_steps_of(c, 2)
        c.finish()
        _assert_same_up_to_sums(c)
        test.assertEqual(c.incidents(), [])
        steps = [(m["incarnation"], m["step"]) for m in c.run.metrics()]
        test.assertEqual([step for _, step in steps], list(range(1, 21)), "no step was done twice")
        return c.record("L7 a node leaves an elastic job, and comes back")


def excluded(test):
    """resilience.on_failure: restart_excluding_node. The node to blame ends with 64, and a spare has its ranks."""
    with Cluster(test, nodes=3, nnodes="2:3", faults=["{kind: segv, rank: 3, step: 9, incarnation: 0}"],
                 overrides=["resilience.on_failure.crash=restart_excluding_node"]) as c:
        spare = _start_with_spare(c)
        to_blame = c.agents.pop(1)
        test.assertEqual(to_blame.finish(60).code, 64)
        c.finish()
        c.assert_same()
        incident = expect_incident(c, ["signal"], [3])
        test.assertIn("without node 1", incident["action"])
        return c.record("a node to blame is left out")


ALL = [c7_spare, c7_elastic, c7_below_min, l7, excluded]
