"""A job that is disturbed at random until it is done, and an operator who starts again what has ended.

Every fault is one line of JSON on stdout as it is made; with the seed, or those lines, a failure can be replayed.
"""

import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import time

from tests.e2e.harness import wait_until
from tests.faults import strangers
from tests.faults.cluster import PORT, kill_quietly

SMALL = ("model.num_layers=2", "batch.global_batch_size=4", "batch.micro_batch_size=1", "checkpoint.keep_last=3")
INTERVAL = 5  # steps between checkpoints, as the job file says
# Ends after which a scheduler or a person starts an agent again: hung, fenced, told to stop.
STARTED_AGAIN = (68, 69, 75, 76)
CALM_S = 1.5  # the last step is not older: the job is not recovering from anything

# What a fault that comes while nothing else is wrong has to be called, if it has consequences at all.
CALLED = {"worker_kill": ("signal",), "worker_segv": ("signal",), "worker_abort": ("signal",),
          "worker_stop": ("stopped",), "node_workers_kill": ("signal",), "agent_kill": ("node_lost",),
          "leader_kill": ("node_lost",), "agent_stop": ("node_lost",), "leader_stop": ("node_lost",),
          "link_cut": ("node_lost", "transport"), "one_way_cut": ("node_lost", "transport"), "data_cut": ("transport",)}
HAS_CONSEQUENCES = set(CALLED) - {"one_way_cut"}
HAS_NONE = ("agent_pause", "link_flap", "control_cut", "strangers")


class NewLines:
    """The rows of a growing .jsonl file, each once."""

    def __init__(self, run, name):
        self.path, self.at = run.path / name, 0

    def take(self):
        if not self.path.exists():
            return []
        with open(self.path, "rb") as file:
            file.seek(self.at)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.at += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


class Soak:
    def __init__(self, cluster, faults, hooked, limit_s):
        self.c, self.faults, self.hooked = cluster, faults, hooked
        self.end_at = time.monotonic() + limit_s
        self.random = random.Random(0)  # of the operator's patience; no fault depends on it
        self.metrics, self.rows = NewLines(cluster.run, "metrics.jsonl"), []
        self.later = []  # (when, what): the second half of a fault, starts of agents
        self.watched = []  # called at every turn until they return true
        self.coming = set()  # nodes whose agent is about to be started
        self.stopped = {}  # node -> agent that stands still
        self.zombies = []  # stopped agents that were replaced
        self.done = set()
        self.killed = set()  # pids of agents that were killed here
        self.told_to_stop = set()  # of those that got a SIGTERM: it may come before they can do anything about it
        self.cut = False
        self.made = []  # (fault, unix time, calm, incidents before)
        self.manifests = {}
        self.resident = []

    # ---- the turn -----------------------------------------------------------------------------------------
    def run(self):
        self.c.start_all()
        wait_until(self.look, "the first step", 60)
        begin = time.monotonic()
        fault = next(self.faults)
        while not self.done:
            self.turn()
            if fault and time.monotonic() >= begin + fault.at and not self.done:
                self.make(fault)
                fault = next(self.faults, None)
        self.finish()

    def turn(self):
        if time.monotonic() > self.end_at:
            raise AssertionError(f"not done in time: step {self.last_step()}, {self.state()}")
        self.look()
        due = [what for when, what in self.later if when <= time.monotonic()]
        self.later = [(when, what) for when, what in self.later if when > time.monotonic()]
        for what in due:
            what()
        self.watched = [what for what in self.watched if not what()]
        self.look_after_agents()
        time.sleep(0.03)

    def look(self):
        self.rows += self.metrics.take()
        return self.rows

    def last_step(self):
        return max((row["step"] for row in self.rows[-50:]), default=0)

    def state(self):
        return {node: (agent.pid, agent.process.poll()) for node, agent in self.c.agents.items()}

    def after(self, seconds, what):
        self.later.append((time.monotonic() + seconds, what))

    # ---- the operator -------------------------------------------------------------------------------------
    def look_after_agents(self):
        for node, agent in self.c.agents.items():
            code = agent.process.poll()
            if code is None or node in self.coming or node in self.done:
                continue
            if code == 0:
                self.done.add(node)
                continue
            zombie = any(z.process.poll() is None for _, z in self.zombies)
            job_over = bool(self.done)
            early = code == -signal.SIGTERM and agent.pid in self.told_to_stop
            if not (agent.pid in self.killed or code in STARTED_AGAIN or early or (code == 2 and zombie) or job_over):
                raise AssertionError(f"the agent of node {node} has ended with {code}: {agent.finish()}")
            self.coming.add(node)
            self.after(self.random.uniform(0.2, 1.5), lambda node=node: self.start(node))

    def start(self, node):
        self.coming.discard(node)
        self.c.start(node)

    def leader(self):
        """The node that leads, as far as the run directory tells."""
        return json.loads(self.epochs()[-1].read_text())["node"]

    def epochs(self):
        files = [p for p in self.c.run.path.glob("control/epoch-*") if p.name.split("-")[1].isdigit()]
        return sorted(files, key=lambda p: int(p.name.split("-")[1]))

    def alive(self, node):
        return self.c.agents[node].process.poll() is None

    # ---- faults -------------------------------------------------------------------------------------------
    def make(self, fault):
        now = time.time()
        recent = bool(self.rows) and now - self.rows[-1]["time"] < CALM_S
        calm = (recent and not self.cut and not self.stopped and not self.coming and not self.watched
                and all(self.alive(node) for node in self.c.agents)
                and not any(z.process.poll() is None for _, z in self.zombies)
                and (not self.made or now - self.made[-1][1] > 3))
        before = len(self.c.incidents())
        target = getattr(self, fault.kind)(fault)
        row = self.rows[-1] if self.rows else {"step": 0, "incarnation": 0}
        print(fault.line(step=row["step"], incarnation=row["incarnation"], calm=calm, target=str(target)), flush=True)
        self.made.append((fault, now, calm and target is not None, before, target))
        self.check_manifests()
        self.weigh()

    def of_worker(self, fault, number):
        pid = self.c.workers().get(fault.rank)
        if pid is None:
            return None
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return None
        return fault.rank

    def worker_kill(self, fault):
        return self.of_worker(fault, signal.SIGKILL)

    def worker_segv(self, fault):
        return self.of_worker(fault, signal.SIGSEGV)

    def worker_abort(self, fault):
        return self.of_worker(fault, signal.SIGABRT)

    def worker_stop(self, fault):
        return self.of_worker(fault, signal.SIGSTOP)

    def node_workers_kill(self, fault):
        pids = list(self.c.agents[fault.node].workers().values())
        for pid in pids:
            kill_quietly(pid)
        return fault.node if pids else None

    def _kill(self, node):
        if not self.alive(node) or node in self.stopped:
            return None
        self.killed.add(self.c.agents[node].pid)
        self.c.agents[node].process.kill()
        self.c.agents[node].process.wait()
        return node

    def agent_kill(self, fault):
        return self._kill((self.leader() + 1 + fault.node) % self.c.nodes if self.c.nodes > 2
                          else 1 - self.leader())

    def leader_kill(self, _):
        return self._kill(self.leader())

    def power_cut(self, _):
        return [self._kill(node) for node in self.c.agents]

    def _stop(self, node, fault):
        """The agent stands still until its place is free; another one takes it; then it is killed, or wakes up."""
        if not self.alive(node) or self.stopped:
            return None
        old = self.c.agents[node]
        epochs, incidents, limit = len(self.epochs()), len(self.c.incidents()), time.monotonic() + 20
        os.kill(old.pid, signal.SIGSTOP)
        self.stopped[node] = old

        def replaced():
            free = len(self.epochs()) > epochs or len(self.c.incidents()) > incidents
            if not free and time.monotonic() < limit and not self.done:
                return False
            self.zombies.append((node, old))
            del self.stopped[node]
            if not self.done:
                self.c.start(node)
            self.after(2.0, lambda: self.wake(old) if fault.coin else self.end(old))
            return True

        self.watched.append(replaced)
        return node

    def wake(self, zombie):
        os.kill(zombie.pid, signal.SIGCONT)
        epochs, made = len(self.epochs()), len(self.made)

        def has_ended():
            # When those that knew of its replacement are gone as well, it is as good an agent as any.
            if zombie.process.poll() is None and len(self.epochs()) == epochs and len(self.made) == made:
                raise AssertionError(f"an agent that was replaced has not ended 20 s after it woke up: {zombie.pid}")
            self.end(zombie)

        self.after(20.0, has_ended)

    @staticmethod
    def end(zombie):
        if zombie.process.poll() is None:
            zombie.process.kill()
        zombie.process.wait()

    def agent_stop(self, fault):
        return self._stop(1 - self.leader(), fault)

    def leader_stop(self, fault):
        return self._stop(self.leader(), fault)

    def agent_pause(self, fault):
        agent = self.c.agents[fault.node]
        if agent.process.poll() is not None or fault.node in self.stopped:
            return None
        os.kill(agent.pid, signal.SIGSTOP)
        self.after(fault.seconds, lambda: agent.process.poll() is None and os.kill(agent.pid, signal.SIGCONT))
        return fault.node

    def _cut(self, fault, how):
        if self.cut:
            return None
        self.cut = True
        how()
        self.after(fault.seconds, self.heal)
        return fault.node

    def heal(self):
        self.c.network.heal()
        self.cut = False

    def link_flap(self, fault):
        return self._cut(fault, lambda: self.c.network.link(fault.node, up=False))

    link_cut = link_flap

    def one_way_cut(self, fault):
        peer = self.c.network.address(1 - fault.node)
        return self._cut(fault, lambda: self.c.network.drop(fault.node, f"ip saddr {peer}"))

    def control_cut(self, fault):
        rules = self.control_rules()
        return self._cut(fault, lambda: [self.c.network.drop(node, *rules) for node in range(self.c.nodes)])

    def ports(self):
        """The control port of each node that has led, as far as known."""
        claims = [json.loads(path.read_text()) for path in self.epochs()]
        return {node: PORT for node in range(self.c.nodes)} | {claim["node"]: claim["port"] for claim in claims}

    def control_rules(self):
        return [f"tcp {side} {port}" for port in {PORT, *self.ports().values()} for side in ("dport", "sport")]

    def data_cut(self, fault):
        keep = self.control_rules()

        def cut():
            for node in range(self.c.nodes):
                peer = self.c.network.address(1 - node)
                self.c.network.drop(node, f"ip saddr {peer} meta l4proto tcp", keep=keep)

        return self._cut(fault, cut)

    def strangers(self, fault):
        leader = self.leader()
        child = strangers.start(self.c.network, 1 - leader, leader, self.ports()[leader], fault.number, fault.seconds,
                                self.c.run.path / "control")
        self.watched.append(lambda: strangers.ended(child))
        return leader

    def preempt(self, fault):
        agent = self.c.agents[fault.node]
        if agent.process.poll() is not None or fault.node in self.stopped:
            return None
        self.told_to_stop.add(agent.pid)
        agent.signal(signal.SIGTERM)
        return fault.node

    def preempt_twice(self, fault):
        target = self.preempt(fault)
        agent = self.c.agents[fault.node]
        if target is not None:
            self.after(0.02, lambda: agent.process.poll() is None and agent.signal(signal.SIGTERM))
        return target

    def preempt_and_kill(self, fault):
        target = self.preempt(fault)
        if target is not None:
            self.after(0.1, lambda: self._kill(target))
        return target

    # ---- the end ------------------------------------------------------------------------------------------
    def finish(self):
        """The job has ended on one node: the others learn of it, whatever was done to them."""
        self.heal()
        for agent in self.stopped.values():
            os.kill(agent.pid, signal.SIGCONT)
        limit = time.monotonic() + 60
        while len(self.done) < self.c.nodes or self.later or self.watched:
            if time.monotonic() > limit:
                raise AssertionError(f"the job is done, but {self.state()}")
            self.turn()
        self.rows += self.metrics.take()

    def check_manifests(self):
        """What is committed is never touched again."""
        for path in self.c.run.checkpoints():
            try:
                status = (path / "manifest.json").stat()
            except OSError:
                continue  # retention
            mark = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self.manifests.setdefault(path.name, mark) != mark:
                raise AssertionError(f"{path.name} was committed and has changed")

    def weigh(self):
        self.resident += [agent.resident_kib() for agent in self.c.agents.values()]


# ---- judgement --------------------------------------------------------------------------------------------
def judge(test, soak, reference):
    """Everything that has to be true when it is over."""
    c, expected = soak.c, reference.losses()
    c.assert_no_leftovers()
    test.assert_identical(c.run, reference)
    test.assert_verified(c.run)
    for row in soak.rows:  # of steps that were replayed too
        test.assertEqual(row["loss"], expected[row["step"]], f"step {row['step']} of incarnation {row['incarnation']}")
    incarnations = [row["incarnation"] for row in soak.rows]
    test.assertEqual(incarnations, sorted(incarnations), "two incarnations have written at one time")
    for node in range(c.nodes):
        test.assertEqual(listening(c.network, node), [], f"ports of node {node} that are still open")
    test.assertEqual([p.name for p in pathlib.Path("/dev/shm").iterdir() if "llmtrain" in p.name], [])
    # While a leader stands still, or has died, steps are made that nobody writes down.
    deaf = any(fault.kind in ("leader_stop", "leader_kill", "agent_pause") for fault, *_ in soak.made)
    for a, b in zip(soak.rows, soak.rows[1:]):
        if a["incarnation"] == b["incarnation"]:
            test.assertEqual(b["step"], a["step"] + 1, f"within incarnation {a['incarnation']}")
    if not deaf:
        test.assertEqual({row["step"] for row in soak.rows}, set(expected))
    judge_names(test, soak)


def listening(network, node):
    """Lines of the kernel's tables about sockets that wait for somebody."""
    tables = subprocess.run([*network.inside(node), "cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True,
                            text=True, check=True).stdout
    return [line for line in tables.splitlines() if len(line.split()) > 3 and line.split()[3] == "0A"]


def judge_names(test, soak):
    """Incidents of faults that came alone bear the right name."""
    incidents = soak.c.incidents()
    for (fault, when, calm, before, target), following in zip(soak.made, [*soak.made[1:], None]):
        new = [i for i in incidents[before:] if following is None or i["time"] < following[1]]
        alone = following is None or following[1] - when > 20
        if not calm:
            continue
        what = f"fault {fault.number} ({fault.kind} of {target} at {fault.at:.0f} s): {[i['verdict'] for i in new]}"
        if fault.kind in HAS_NONE and alone:
            test.assertEqual(new, [], what)
        if fault.kind in HAS_CONSEQUENCES and alone:
            test.assertTrue(new, what)
        if fault.kind in CALLED and new and not soak.hooked.get(new[0]["incarnation"]):
            test.assertIn(new[0]["kind"], CALLED[fault.kind], what)
            if fault.kind.startswith("worker_"):
                test.assertEqual(new[0]["first_cause"], [target], what)
            if fault.kind in ("agent_kill", "leader_kill", "agent_stop", "leader_stop", "node_workers_kill"):
                test.assertEqual(new[0]["node"], target, what)


def effective_time(soak, report):
    """(measured, modelled): (1 - (D + R + T/2) / M) / (1 + C/T) with what this run was like."""
    times = [row["time"] for row in soak.rows]
    lost = [b["time"] - a["time"] for a, b in zip(soak.rows, soak.rows[1:]) if a["incarnation"] != b["incarnation"]]
    step = statistics.mean(row["step_ms"] for row in soak.rows if row["step_ms"]) / 1000
    saves = max(1, report["checkpoints"]["saved"])
    wall = times[-1] - times[0]
    interval = INTERVAL * step
    if not lost:
        return report["effective_ratio"], 1.0
    down = sum(lost) / len(lost)  # from the last step before a failure to the first one after it: D + R
    mean = wall / len(lost)
    stall = report["ledger"]["saves_s"] / saves
    return report["effective_ratio"], (1 - (down + interval / 2) / mean) / (1 + stall / interval)


def summary(soak, report):
    kinds = {}
    for fault, *_ in soak.made:
        kinds[fault.kind] = kinds.get(fault.kind, 0) + 1
    measured, modelled = effective_time(soak, report)
    return {"faults": len(soak.made), "kinds": kinds, "incidents": len(report["incidents"]),
            "incarnations": len(report["incarnations"]), "epochs": len(soak.epochs()),
            "wall_s": round(report["wall_s"], 1), "effective_ratio": round(measured, 4), "model": round(modelled, 4),
            "ledger": {name: round(value, 1) for name, value in report["ledger"].items()},
            "agent_kib_max": max(soak.resident, default=0)}
