"""The launcher over two nodes: what it weighs, what it costs a step, and how long failures last beside torchrun.

    bench/nodes.py [agent] [cost] [recovery] [torchrun] [--kills 5] [--rounds 10] [--fault "worker killed"] [--json FILE]

Nodes are network namespaces on this machine, with two workers each (torchrun: one, for two cores would do nothing but
import PyTorch); needs root, iproute2 and nftables. Without a word all parts are run.
- agent: resident memory and processor time of both agents while a job runs, and while a worker prints all it can
- cost: a step with collectives traced and hangs watched for, and without, in turn
- recovery: from a fault to the next finished step, for a worker that is killed, one that is stopped, and agents that
  are killed (and started again at once)
- torchrun: the same with torchrun and PyTorch DDP over Gloo
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from processes import children

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.faults.network import Network, why_not  # noqa: E402

BUILD = pathlib.Path(os.environ.get("LLMTRAIN_BINARY_DIR", ROOT / "build/release"))
PORT = 29418
PATIENCE = 60.0
IGNORED_AFTER = 60.0  # a fault that has had no consequences by then is taken for not noticed
WATCHED = ["monitoring.trace_collectives=true", "resilience.hang_factor=3"]
UNWATCHED = ["monitoring.trace_collectives=false", "resilience.hang_factor=0"]


def wait_for(value, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = value()
        if found:
            return found
        time.sleep(0.005)
    raise TimeoutError(f"waited {seconds:.0f} s in vain for {what}")


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def resident_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def processor_s(pid):
    """Of all threads that it has now."""
    times = [path.read_text().split()[0] for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(map(int, times)) / 1e9


class Job:
    """Two agents, one in each namespace. Subclasses say how they are started and where steps are told of."""

    def __init__(self, network, folder):
        self.network, self.folder, self.agents = network, folder, {}
        for node in range(network.nodes):
            self.start(node)

    def start(self, node):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
        with open(self.folder / f"agent{node}.log", "ab") as log:
            self.agents[node] = subprocess.Popen([*self.network.inside(node), *map(str, self.command(node))],
                                                 env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def workers(self, node):
        return [pid for pid in children(self.agents[node].pid) if self.is_worker(pid)]

    def settle(self, steps=6):
        moment = time.time()
        wait_for(lambda: len(self.steps_after(moment)) >= steps, "steps")

    def stop(self):
        for agent in self.agents.values():
            if agent.poll() is None:
                agent.kill()
            agent.wait()
        for node in self.agents:  # torchrun's workers outlive their agent
            for pid in self.in_namespace(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def in_namespace(self, node):
        listed = subprocess.run(["ip", "netns", "pids", self.network.space(node)], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]


class Llmtrain(Job):
    name = "llmtrain"

    def __init__(self, network, folder, settings=(), step_ms=0):
        self.run_dir = folder / "run"
        self.settings = [f"run.dir={self.run_dir}", "train.duration=1000000 steps", "checkpoint.keep_last=2",
                         "resilience.max_restarts=1000", "resilience.hang_min_s=5", *settings]
        if step_ms:
            self.settings.append(f"faults=[{{kind: sleep, ms: {step_ms}, each: step, incarnation: -1}}]")
        super().__init__(network, folder)

    def command(self, node):
        sets = [word for setting in self.settings for word in ("--set", setting)]
        return [BUILD / "llmtrain", "launch", ROOT / "configs/cpu_2node.yaml", "--nnodes", 2, "--node-rank", node,
                "--rdzv-endpoint", f"{self.network.address(0)}:{PORT}", *sets]

    def rows(self):
        try:
            text = (self.run_dir / "metrics.jsonl").read_text()
        except OSError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def steps_after(self, moment):
        return [row["time"] for row in self.rows() if row["time"] > moment]

    def recovered(self, moment, incarnation):
        return next((row["time"] for row in self.rows() if row["time"] > moment and row["incarnation"] > incarnation), None)

    def generation(self):
        return max((row["incarnation"] for row in self.rows()), default=0)

    @staticmethod
    def is_worker(pid):
        return name_of(pid).startswith("llmtrain-r")


class Torchrun(Job):
    name = "torchrun"

    def command(self, node):
        return [sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1, "--max-restarts", 1000,
                "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{self.network.address(0)}:{PORT}", "--rdzv-id", "bench",
                "--rdzv-conf", f"is_host={1 - node}", "--local-addr", self.network.address(node),
                ROOT / "bench/torchrun_job.py", self.folder / "steps", self.folder / "state.pt"]

    def rows(self):
        path = self.folder / "steps"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split() for line in lines if len(line.split()) == 3]

    def steps_after(self, moment):
        return [float(row[0]) for row in self.rows() if float(row[0]) > moment]

    def recovered(self, moment, pid):  # rank 0 writes, and is another process after a restart
        return next((float(row[0]) for row in self.rows() if float(row[0]) > moment and row[1] != pid), None)

    def generation(self):
        return self.rows()[-1][1]

    @staticmethod
    def is_worker(pid):
        try:
            return b"torchrun_job.py" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False


class Rig:
    """A job in a network and a folder of its own, as a context."""

    def __init__(self, side, *arguments, **options):
        self.side, self.arguments, self.options = side, arguments, options

    def __enter__(self):
        self.network, self.folder = Network(2), pathlib.Path(tempfile.mkdtemp())
        self.job = self.side(self.network, self.folder, *self.arguments, **self.options)
        try:
            wait_for(lambda: self.job.steps_after(0), "the first step")
            self.job.settle()
        except BaseException:
            self.__exit__()
            raise
        return self.job

    def __exit__(self, *_):
        self.job.stop()
        self.network.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def spread(values, unit, digits=2):
    return (f"median {statistics.median(values):.{digits}f} {unit}, max {max(values):.{digits}f} {unit} "
            f"({len(values)} times)")


# ---- what an agent weighs -----------------------------------------------------------------------------------
def watch(job, seconds):
    """Per node: (MiB resident, several times; processor seconds; steps that were made meanwhile)."""
    before = {node: processor_s(agent.pid) for node, agent in job.agents.items()}
    weights, begin = {node: [] for node in job.agents}, time.time()
    while time.time() < begin + seconds:
        for node, agent in job.agents.items():
            weights[node].append(resident_mib(agent.pid))
        time.sleep(0.2)
    spent = {node: processor_s(agent.pid) - before[node] for node, agent in job.agents.items()}
    return weights, spent, len(job.steps_after(begin)), time.time() - begin


def print_much(pids, seconds):
    """Fills the standard output of workers, through the pipes that their agent reads."""
    end, line, written = time.monotonic() + seconds, b"x" * 199 + b"\n", [0]

    def fill(pid):
        with open(f"/proc/{pid}/fd/1", "wb", buffering=0) as out:
            while time.monotonic() < end:
                written[0] += out.write(line * 20)

    threads = [threading.Thread(target=fill, args=(pid,)) for pid in pids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return written[0]


def agent(_):
    found = {}
    with Rig(Llmtrain) as job:
        weights, spent, steps, wall = watch(job, 15)
        for node in job.agents:
            who = "leader" if node == 0 else "follower"
            print(f"agent, {who:8}: {spread(weights[node], 'MiB')}; {100 * spent[node] / wall:.2f} % of a core, "
                  f"{1e6 * spent[node] / steps:.0f} us a step of {1000 * wall / steps:.0f} ms", flush=True)
            found[who] = {"mib": statistics.median(weights[node]), "mib_max": max(weights[node]),
                          "core_percent": 100 * spent[node] / wall, "us_a_step": 1e6 * spent[node] / steps,
                          "step_ms": 1000 * wall / steps}
        storm = threading.Thread(target=lambda: found.update(bytes=print_much([job.workers(n)[0] for n in job.agents], 5)))
        storm.start()
        during, _, _, _ = watch(job, 5)
        storm.join()
        after, _, _, _ = watch(job, 3)
        for node in job.agents:
            print(f"agent, node {node}, while a worker prints all it can: {spread(during[node], 'MiB')}; afterwards "
                  f"{spread(after[node], 'MiB')}")
        print(f"printed: {found['bytes'] / 1e6:.0f} MB in 5 s by one worker of each node", flush=True)
        found["mib_max_storm"] = max(max(values) for values in during.values())
    return found


# ---- what watching costs a step -----------------------------------------------------------------------------
def step_ms(settings, steps):
    with Rig(Llmtrain, [*settings, "checkpoint.interval=0", "monitoring.tensorboard=false"]) as job:
        begin = len(job.rows())
        rows = wait_for(lambda: (r := job.rows())[begin + steps:] and r, "steps")[begin:begin + steps]
    return (rows[-1]["time"] - rows[0]["time"]) / (len(rows) - 1) * 1e3


def cost(arguments):
    taken = {"on": [], "off": []}
    for number in range(arguments.rounds):
        order = [("on", WATCHED), ("off", UNWATCHED)]
        for name, settings in order if number % 2 else order[::-1]:
            taken[name].append(step_ms(settings, arguments.steps))
    for name, values in taken.items():
        print(f"step, traced and watched {name:3}: {spread(values, 'ms')}, min {min(values):.2f}")
    differences = [(on - off) / off * 100 for on, off in zip(taken["on"], taken["off"])]
    print(f"difference of medians {100 * (statistics.median(taken['on']) / statistics.median(taken['off']) - 1):+.2f} %; of each "
          f"pair: {spread(differences, '%')}, min {min(differences):.2f} %", flush=True)
    return {"on_ms": taken["on"], "off_ms": taken["off"]}


# ---- recovery -----------------------------------------------------------------------------------------------
def any_worker(job, i):
    """Of the nodes in turn."""
    workers = wait_for(lambda: job.workers(i % 2), "workers")
    return workers[i // 2 % len(workers)]


def kill_worker(job, i):
    os.kill(any_worker(job, i), signal.SIGKILL)


def stop_worker(job, i):
    os.kill(any_worker(job, i), signal.SIGSTOP)


def kill_agent(node):
    def fault(job, _):
        job.agents[node].kill()
        job.agents[node].wait()
        job.start(node)
    return fault


FAULTS = {"worker killed": kill_worker, "worker stopped": stop_worker, "agent killed": kill_agent(1),
          "store host's agent killed": kill_agent(0)}


def recoveries(side, what, kills, **options):
    """Seconds from each fault to the next finished step of restarted workers; None: nothing happened."""
    took = []
    with Rig(side, **options) as job:
        for i in range(kills):
            job.settle()
            before, moment = job.generation(), time.time()
            FAULTS[what](job, i)
            try:
                took.append(wait_for(lambda: job.recovered(moment, before), "recovery", IGNORED_AFTER) - moment)
            except TimeoutError:
                took.append(None)
                break  # the job is lost, or hangs
            if what == "store host's agent killed" and side is Llmtrain:
                break  # the other node leads now
    return took


def of_all(side, kills, faults, **options):
    found = {}
    for what in faults or FAULTS:
        took = []
        while len(took) < (kills if side is Llmtrain or what == "worker killed" else 1):
            took += recoveries(side, what, kills - len(took), **options)
            if None in took:
                break
        known = [value for value in took if value is not None]
        text = spread(known, "s") if known else ""
        lost = f"no step within {IGNORED_AFTER:.0f} s" if None in took else ""
        print(f"{side.name}, {what}: {'; '.join(filter(None, (text, lost)))}", flush=True)
        found[what] = took
    return found


def recovery(arguments):
    return of_all(Llmtrain, arguments.kills, arguments.fault, step_ms=100)


def torchrun(arguments):
    return of_all(Torchrun, arguments.kills, arguments.fault)


PARTS = {"agent": agent, "cost": cost, "recovery": recovery, "torchrun": torchrun}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="this one only; may be repeated")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--json", type=pathlib.Path, help="add what was found to this file")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; allowed are {', '.join(PARTS)}")
    if why_not():
        sys.exit(f"nodes: {why_not()}")
    for part in arguments.parts or PARTS:
        found = PARTS[part](arguments)
        if arguments.json:
            with open(arguments.json, "a") as out:
                out.write(json.dumps({"part": part, **found}) + "\n")


main()
