"""What processes run out of, leave behind, or do not do when they are asked: memory, children, descriptors, signals."""

from tests.faults import cgroup
from tests.faults.cases.common import expect_incident
from tests.faults.cluster import Cluster


def _needs(test, controller):
    reason = cgroup.why_not(controller)
    if reason:
        test.skipTest(reason)


def p13(test):
    """A worker is killed for lack of memory by the limit above its cgroup, again and again: the second time ends it."""
    _needs(test, "memory")
    with cgroup.Cgroup("memory") as job, cgroup.Cgroup("memory", job) as task, \
            Cluster(test, faults=["{kind: oom, mib: 4096, rank: 3, step: 8, incarnation: -1}"]) as c:
        job.limit_memory(1500)
        c.start(0)
        task.add(c.start(1).pid)
        c.finish(67)
        c.assert_no_leftovers()
        test.assertEqual(len(c.incidents()), 2)
        for incident in c.incidents():
            test.assertEqual((incident["kind"], incident["first_cause"], incident["node"]), ("out_of_memory", [3], 1))
            test.assertIn(f"its cgroup {job.name} allows 1500 MiB", incident["verdict"])
        return c.record("P13 killed for lack of memory, twice")


ALL = [p13]
