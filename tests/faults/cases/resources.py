"""What processes run out of, leave behind, or do not do when they are told to."""

import os
import pathlib
import resource
import signal
import time

from tests.e2e.harness import name_of, processes_with, wait_until
from tests.faults import cgroup
from tests.faults.cases.common import SAVED, expect_incident, needs_cgroup
from tests.faults.cluster import Cluster

ORPHAN_MAKER = pathlib.Path(os.environ["LLMTRAIN_BINARY_DIR"]) / "tests/libllmtrain_orphan_maker.so"


def p13(test):
    """A worker is killed for lack of memory by the limit above its cgroup, again and again: the second time ends it."""
    needs_cgroup(test, "memory")
    with cgroup.Cgroup("memory") as job, cgroup.Cgroup("memory", job) as task, \
            Cluster(test, faults=["{kind: oom, mib: 4096, rank: 3, step: 3, incarnation: -1}"]) as c:
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


def _free_descriptor(pid):
    """The number that the next file of this process would get."""
    taken = {int(fd.name) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    return min(set(range(len(taken) + 1)) - taken)


def _limit_files(pid, count):
    """No new descriptor from `count` on. Open ones stay as they are."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))


def _cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def p14_worker(test):
    """A worker has no descriptor left for a save: the limit is named, training goes on, and the next save is made."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(SAVED)
        worker = c.worker(3)
        before = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        c.mark_fault()
        _limit_files(worker, _free_descriptor(worker))
        said = c.agents[0].err_path
        wait_until(lambda: "step 10 was not saved" in said.read_text(), "the save fails", 60)
        _limit_files(worker, before[0])
        test.assertRegex(said.read_text(), r"step 10 was not saved, .*Too many open files .*\(ulimit -n\)")
        c.finish()
        # What the failed save has written is removed by the next start.
        wait_until(lambda: not processes_with(test.mark), "no process is left", 5)
        test.assertEqual(c.run.checkpoint_steps(), [5, 15, 20])
        test.assertEqual(c.run.losses(), test.undisturbed().losses())
        test.assertEqual(c.incidents(), [])
        return {**c.record("P14 no descriptor left in a worker"), "lost_steps": 0, "verdict": "no incident"}


def p14_agents(test):
    """The agents have no descriptor left: training goes on, nothing spins, and a start that needs some says so."""
    with Cluster(test) as c:
        c.start_all().wait_for_step(3)
        for agent in c.agents.values():
            _limit_files(agent.pid, 16)
        start, used = time.monotonic(), [_cpu_seconds(a.pid) for a in c.agents.values()]
        c.wait_for_step(SAVED)
        elapsed = time.monotonic() - start
        for agent, before in zip(c.agents.values(), used):
            test.assertLess(_cpu_seconds(agent.pid) - before, elapsed / 2, "an agent spins")
        c.signal(c.worker(3), signal.SIGKILL)
        results = c.finish(64)
        named = "Too many open files; a process may have 16 open files here"
        test.assertIn(named, results[0].err)
        test.assertIn(named, c.incidents()[-1]["verdict"])
        c.assert_no_leftovers()
        test.expect(0, "ckpt", "verify", c.run.path)
        return {**c.record("P14 no descriptor left in the agents", 0), "verdict": "64"}


def p14_threads(test):
    """The cgroup of a node allows fewer threads than its workers start: rank, node and limit are named."""
    needs_cgroup(test, "pids")
    with cgroup.Cgroup("pids") as job, Cluster(test, overrides=["resilience.no_progress_limit=1"]) as c:
        job.limit_processes(9)
        c.start(0)
        job.add(c.start(1).pid)
        c.finish(67)
        c.assert_no_leftovers()
        for incident in c.incidents():
            test.assertEqual((incident["kind"], incident["node"]), ("exit", 1), incident["verdict"])
            test.assertLessEqual(set(incident["first_cause"]), {2, 3})
            test.assertIn(f"cgroup {job.name} allows 9 (pids.max)", incident["verdict"])
        return c.record("P14 no thread left")


def _orphans(test):
    return {pid for pid in processes_with(test.mark) if name_of(pid) == "orphan"}


def p15(test):
    """Workers start children that leave their group: none outlives a worker's crash, kill -9 of an agent, or a stop."""
    per_worker = 12
    env = f"launch.env={{LD_PRELOAD: '{ORPHAN_MAKER}', LLMTRAIN_TEST_ORPHANS: '{per_worker}'}}"
    with Cluster(test, overrides=[env]) as c:
        c.start_all().wait_for_step(SAVED)
        first = _orphans(test)
        test.assertEqual(len(first), 4 * per_worker)
        c.signal(c.worker(3), signal.SIGKILL)
        wait_until(lambda: not first & _orphans(test), "the children of the crashed incarnation are gone", 10)

        wait_until(lambda: len(_orphans(test)) == 4 * per_worker, "the workers run again", 30)
        with_agent = {pid for pid in _orphans(test) if _agent_of(pid) == _agent_of(c.worker(3))}
        test.assertEqual(len(with_agent), 2 * per_worker)
        c.agents[1].process.kill()
        killed = time.monotonic()
        wait_until(lambda: not with_agent & _orphans(test), "the children of the killed agent are gone", 10)
        gone_ms = round(1000 * (time.monotonic() - killed))
        c.agents[1].process.wait()

        c.start(1)
        wait_until(lambda: len(_orphans(test)) == 4 * per_worker, "the workers run a third time", 60)
        c.wait_for_step(c.run.last_step() + 1)
        c.agents[0].signal(signal.SIGTERM)
        c.finish(75)
        c.assert_no_leftovers()
        row = c.record("P15 children of workers", 0)
        return {**row, "detect_ms": gone_ms, "verdict": "none is left"}


def _agent_of(pid):
    """The mark that an agent gives to its workers."""
    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(word for word in words if word.startswith(b"LLMTRAIN_AGENT="))


def p16(test):
    """A worker does not stop when it is asked to: it is killed after the grace time."""
    grace_s = 1
    with Cluster(test, faults=["{kind: sleep, ms: 600000, rank: 3, step: 8}"],
                 overrides=[f"resilience.stop_grace_s={grace_s}", "resilience.hang_min_s=60"]) as c:
        c.start_all().wait_for_step(7)
        os.kill(c.worker(3), signal.SIGTERM)
        c.signal(c.agents[1].pid, signal.SIGTERM)
        asked = time.monotonic()
        c.finish(76)
        ended_ms = round(1000 * (time.monotonic() - asked))
        test.assertGreaterEqual(ended_ms, 1000 * grace_s)
        test.assertLess(ended_ms, 1000 * (grace_s + 10))
        c.assert_no_leftovers()
        test.expect(0, "ckpt", "verify", c.run.path)
        return {"case": "P16 a worker ignores the stop", "detect_ms": ended_ms, "recover_ms": None, "lost_steps": None,
                "verdict": "76"}


def p17(test):
    """A frozen worker, which not even SIGKILL ends: its node is left out, and a spare takes its place."""
    needs_cgroup(test, "freezer")
    with cgroup.Cgroup("freezer") as freezer, Cluster(test, nodes=3, nnodes="2:3",
                                                      overrides=["resilience.stop_grace_s=3"]) as c:
        for node in range(3):
            c.start(node)
            if node == 1:
                c.wait_for_step(1)
        c.wait_for_step(SAVED)
        frozen = c.worker(3)
        freezer.add(frozen)
        c.mark_fault()
        freezer.freeze(True)
        results = c.finish((0, 64))
        test.assertEqual({node: result.code for node, result in results.items()}, {0: 0, 1: 64, 2: 0})
        test.assertEqual(processes_with(test.mark), [frozen])
        freezer.freeze(False)
        c.assert_same()
        incident = expect_incident(c, ["stopped"], [3])
        test.assertRegex(incident["verdict"], r"is frozen .* did not die of SIGKILL")
        test.assertIn("without node 1", incident["action"])
        return c.record("P17 a worker that cannot be killed")


ALL = [p13, p14_worker, p14_agents, p14_threads, p15, p16, p17]
