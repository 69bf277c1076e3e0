"""A job over several nodes with the real executable, and what is to be true of it after a fault."""

import atexit
import json
import os
import pathlib
import shutil
import signal
import tempfile
import time

from tests.e2e.harness import LLMTRAIN, ROOT, E2eTest, RunDir, Running, processes_with, wait_until
from tests.faults.network import Network, why_not

CONFIG = ROOT / "configs/cpu_2node.yaml"
PORT = 29417
STEP_MS = 100
# Deadlines at the scale of steps that take a tenth of a second.
QUICK = ("resilience.hang_min_s=5", "resilience.collective_timeout_s=20", "launch.join_timeout_s=60")
PATIENCE = 120


class Cluster:
    """`nodes` hosts for the agents of one job. Use as a context manager; the network goes with it.

    `nnodes` is what the agents are told of their number: MIN:MAX for jobs with spares, and for elastic ones."""

    def __init__(self, test, nodes=2, name="run", faults=(), overrides=(), step_ms=STEP_MS, nnodes=None):
        self.test = test
        self.nodes = nodes
        self.nnodes = nnodes or nodes
        self.run = RunDir(test.folder / name)
        self.faults = [f"{{kind: sleep, ms: {step_ms}, each: step}}", *faults]
        self.overrides = list(overrides)
        self.network = Network(nodes)
        self.agents = {}  # node -> newest
        self.all_agents = []
        self.fault_time = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for agent in self.all_agents:
            if agent.process.poll() is None:
                agent.process.kill()
                agent.process.wait()
        self.network.close()

    # ---- agents -------------------------------------------------------------------------------------------
    def start(self, node, *more, endpoint=None, node_rank=None, under=()):
        """`node_rank`: another number than that of the host; "none": whichever the leader gives.
        `under`: words before the command, such as an environment."""
        faults = f"faults=[{', '.join(self.faults)}]"
        endpoint = endpoint or f"{self.network.address(0)}:{PORT}"
        rank = [] if node_rank == "none" else ["--node-rank", node if node_rank is None else node_rank]
        words = [*self.network.inside(node), *under, LLMTRAIN, "launch", CONFIG, "--nnodes", self.nnodes, *rank,
                 "--rdzv-endpoint", endpoint,
                 *E2eTest.sets(f"run.dir={self.run.path}", faults, *QUICK, *self.overrides), *more]
        agent = Running(self.test, list(map(str, words)))
        self.agents[node] = agent
        self.all_agents.append(agent)
        return agent

    def start_all(self):
        for node in range(self.nodes):
            self.start(node)
        return self

    def workers(self):
        """{rank: pid} over all nodes."""
        return {rank: pid for agent in self.agents.values() for rank, pid in agent.workers().items()}

    def wait_for_step(self, step):
        def reached():
            ended = {n: a.process.poll() for n, a in self.agents.items() if a.process.poll() not in (None, 0)}
            if ended:
                raise AssertionError(f"ended before step {step}: {[str(self.agents[n].finish()) for n in ended]}")
            return self.run.last_step() >= step
        wait_until(reached, f"step {step}", PATIENCE)
        return self

    def worker(self, rank):
        wait_until(lambda: rank in self.workers(), f"rank {rank} lives", PATIENCE)
        return self.workers()[rank]

    def signal(self, pid, number):
        """The fault: times are counted from here."""
        self.fault_time = time.time()
        os.kill(pid, number)

    def mark_fault(self):
        self.fault_time = time.time()

    def finish(self, code=0, nodes=None, patience=PATIENCE):
        """Wait for the agents; each must end with `code`, or one of several."""
        codes = code if isinstance(code, tuple) else (code,)
        results = {}
        for node in self.agents if nodes is None else nodes:
            results[node] = self.agents[node].finish(patience)
            self.test.assertIn(results[node].code, codes, f"node {node}: {results[node]}")
        return results

    # ---- what it left -------------------------------------------------------------------------------------
    def incidents(self):
        files = sorted((self.run.path / "incidents").glob("incident-*.json"), key=lambda p: int(p.stem.split("-")[1]))
        found = []
        for path in files:
            try:
                found.append(json.loads(path.read_text()))
            except ValueError:  # being replaced
                pass
        return found

    def wait_for_incident(self, count=1):
        wait_until(lambda: len(self.incidents()) >= count, f"incident {count}", PATIENCE)
        return self.incidents()[-1]

    def record(self, case, number=-1):
        """The row of the table; `number` is the incident that the fault caused."""
        incident = (self.incidents() or [None])[number]
        row = {"case": case, "detect_ms": None, "recover_ms": None, "lost_steps": None, "verdict": None}
        if incident is None:
            return row
        row["verdict"] = incident.get("kind")
        row["lost_steps"] = incident.get("lost_steps")
        if self.fault_time is not None:
            row["detect_ms"] = round(1000 * (incident["time"] - self.fault_time))
            after = [m["time"] for m in self.run.metrics() if m["incarnation"] > incident["incarnation"]]
            row["recover_ms"] = round(1000 * (min(after) - self.fault_time)) if after else None
        return row

    def assert_no_leftovers(self):
        self.test.assertEqual([p.name for p in (self.run.path / "checkpoints").glob(".step-*")], [])
        wait_until(lambda: not processes_with(self.test.mark), "no process is left", 5)

    def assert_same(self):
        """Finished, nothing left behind, and bit-equal to a run without a fault."""
        self.assert_no_leftovers()
        self.test.assert_identical(self.run, self.test.undisturbed())
        self.test.assertEqual(self.run.losses(), self.test.undisturbed().losses())


class FaultTest(E2eTest):
    """Skips where no rig can be built. The run without a fault is made once for all tests of a process."""

    _undisturbed = None

    def setUp(self):
        reason = why_not()
        if reason:
            self.skipTest(reason)
        super().setUp()

    def undisturbed(self):
        if FaultTest._undisturbed is None:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="llmtrain-undisturbed-"))
            atexit.register(shutil.rmtree, folder, True)
            with Cluster(self, name="undisturbed") as cluster:
                cluster.start_all().finish()
                shutil.copytree(cluster.run.path, folder / "run")
            FaultTest._undisturbed = RunDir(folder / "run")
        return FaultTest._undisturbed


def kill_quietly(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
