"""Start, restart and cost of the launcher: llmtrain and torchrun, in turn.

    bench/launch.py [--rounds 5] [--kills 50]

- commands: wall time of --help and validate; resident memory of the agent while it runs a job
- start: from the command to the end of the first optimizer step, 2 workers
- kill: from SIGKILL of a worker to the next finished step, --kills times in one run (torchrun: --rounds times)
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from processes import children

ROOT = pathlib.Path(__file__).resolve().parent.parent
LLMTRAIN = ROOT / "build/release/llmtrain"
PATIENCE = 120.0


def wait_for(value, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = value()
        if found:
            return found
        time.sleep(0.005)
    sys.exit(f"waited {PATIENCE:.0f} s in vain for {what}")


class Llmtrain:
    """A job that trains until it is stopped."""

    name = "llmtrain"

    def __init__(self, folder):
        self.run_dir = folder / "run"
        self.process = subprocess.Popen(
            [LLMTRAIN, "launch", ROOT / "configs/smoke_dp2.yaml", "--set", f"run.dir={self.run_dir}",
             "--set", "train.duration=1000000 steps", "--set", "train.eval_interval=0",
             "--set", "checkpoint={interval: 5 steps, keep_last: 2}", "--set", "resilience.max_restarts=1000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def steps_after(self, moment):
        """Times of the steps that ended after `moment`."""
        try:
            lines = (self.run_dir / "metrics.jsonl").read_text().splitlines()[-20:]
        except OSError:
            return []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        return [row["time"] for row in rows if row["time"] > moment]

    def workers(self):
        return children(self.process.pid)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Torchrun:
    """The same with torchrun and PyTorch."""

    name = "torchrun"

    def __init__(self, folder):
        self.log = folder / "steps"
        self.process = subprocess.Popen(
            [pathlib.Path(sys.executable).with_name("torchrun"), "--standalone", "--nproc-per-node=2", "--max-restarts=1000",
             ROOT / "bench/torchrun_job.py", self.log, folder / "state.pt"],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def steps_after(self, moment):
        if not self.log.exists():
            return []
        rows = [line.split() for line in self.log.read_text().splitlines()[-20:]]
        return [float(row[0]) for row in rows if len(row) == 3 and float(row[0]) > moment]

    def workers(self):
        return children(self.process.pid)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def in_folder(side, measure):
    folder = pathlib.Path(tempfile.mkdtemp())
    began = time.time()
    job = side(folder)
    try:
        return measure(job, began)
    finally:
        job.stop()
        shutil.rmtree(folder, ignore_errors=True)


def first_step(job, began):
    return wait_for(lambda: job.steps_after(began), "the first step")[0] - began


def recoveries(job, began, kills):
    """Seconds from each SIGKILL to the first step that ends with another set of workers."""
    first_step(job, began)
    took = []
    for i in range(kills):
        settled = time.time()
        wait_for(lambda: len(job.steps_after(settled)) >= 6, "steps between two kills")
        before = job.workers()
        os.kill(before[i % len(before)], signal.SIGKILL)
        killed = time.time()
        wait_for(lambda: (now := job.workers()) and len(now) == 2 and not set(now) & set(before), "new workers")
        restarted = time.time()
        took.append(wait_for(lambda: job.steps_after(restarted), "a step after the kill")[0] - killed)
    return took


def commands(rounds):
    for words in (["--help"], ["validate", str(ROOT / "configs/quickstart.yaml")]):
        times = []
        for _ in range(rounds * 4):
            began = time.perf_counter()
            subprocess.run([LLMTRAIN, *words], check=True, capture_output=True)
            times.append((time.perf_counter() - began) * 1e3)
        print(f"llmtrain {words[0]:10} median {statistics.median(times):6.1f} ms   max {max(times):6.1f} ms")


def agent_memory(job, began):
    first_step(job, began)
    status = pathlib.Path(f"/proc/{job.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def show(what, side, values):
    print(f"{what:8}{side.name:10} n {len(values):3}   median {statistics.median(values):5.2f} s   "
          f"min {min(values):5.2f} s   max {max(values):5.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=50)
    arguments = parser.parse_args()
    commands(arguments.rounds)
    for side in (Llmtrain, Torchrun):
        print(f"agent memory {side.name:10} {in_folder(side, agent_memory):6.1f} MB", flush=True)
    starts = {Llmtrain: [], Torchrun: []}
    for _ in range(arguments.rounds):
        for side, times in starts.items():
            times.append(in_folder(side, first_step))
    for side, times in starts.items():
        show("start", side, times)
    show("kill", Llmtrain, in_folder(Llmtrain, lambda job, began: recoveries(job, began, arguments.kills)))
    show("kill", Torchrun, in_folder(Torchrun, lambda job, began: recoveries(job, began, arguments.rounds)))


main()
