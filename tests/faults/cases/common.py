"""What several cases need."""

from tests.faults import cgroup

SAVED = 8  # a step after the first checkpoint and before the second
LONG_STEP_MS = 600  # workers go on for some seconds while their agent stands still: they must not be done by then


def expect_incident(cluster, kinds, ranks=None, number=-1):
    incident = cluster.incidents()[number]
    cluster.test.assertIn(incident["kind"], kinds, incident["verdict"])
    if ranks is not None:
        cluster.test.assertEqual(incident["first_cause"], ranks, incident["verdict"])
    return incident


def needs_cgroup(test, controller):
    reason = cgroup.why_not(controller)
    if reason:
        test.skipTest(reason)
