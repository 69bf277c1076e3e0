"""Eight processes train llama-10m: tp 2 x pp 2 x dp 2 here, DDP and FSDP2 over Gloo in PyTorch, in turn.

    bench/mesh_step.py [--rounds 2] [--steps 8] [--layout "tp: 2, pp: 2, dp: 2"] [--set a.b=c]

The same model, global batch, fp32 and one compute thread a process for all. Tokens per second are those of the
median step; memory is the largest sum of PSS (shared pages are counted once) over the launcher and all ranks.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from processes import MemoryWatch

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANKS, SEQUENCES, SEQ_LENGTH = 8, 16, 256
WARM_UP = 2  # steps of each run that are not counted

JOB = """
version: 1
run: {{name: bench, dir: "{run_dir}", device: cpu}}
model: {{preset: llama-10m}}
data: {{seq_length: {seq_length}, train: [{{path: synthetic}}]}}
parallelism: {{{layout}}}
batch: {{global_batch_size: {sequences}, micro_batch_size: 2}}
precision: {{compute: fp32}}
train: {{duration: {steps} steps, compute_threads: 1}}
monitoring: {{peak_tflops: 1, tensorboard: false}}
"""


def watched(command):
    """Runs it to its end; the memory that it and its children took at most."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with MemoryWatch(process.pid) as memory:
        output, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{output[-4000:]}\nexit {process.returncode}")
    return memory


def of_llmtrain(folder, arguments):
    job = folder / "job.yaml"
    job.write_text(JOB.format(run_dir=folder / "run", layout=arguments.layout, steps=arguments.steps,
                              sequences=SEQUENCES, seq_length=SEQ_LENGTH))
    overrides = [word for override in arguments.set for word in ("--set", override)]
    memory = watched([ROOT / "build/release/llmtrain", "launch", job, *overrides])
    rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return [row["step_ms"] for row in rows if "step_ms" in row], memory


def of_pytorch(kind):
    def measure(folder, arguments):
        torchrun = pathlib.Path(sys.executable).with_name("torchrun")
        memory = watched([torchrun, "--standalone", f"--nproc-per-node={RANKS}", ROOT / "bench/pytorch_mesh.py", kind,
                          str(arguments.steps), str(SEQUENCES // RANKS), folder / "steps.json"])
        return json.loads((folder / "steps.json").read_text()), memory
    return measure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--layout", default="tp: 2, pp: 2, dp: 2", help="section `parallelism` of the job")
    parser.add_argument("--set", action="append", default=[], help="of the job, as for llmtrain launch")
    arguments = parser.parse_args()
    sides = {"llmtrain": of_llmtrain, "DDP": of_pytorch("ddp"), "FSDP2": of_pytorch("fsdp2")}
    times = {name: [] for name in sides}
    memory = {}
    for _ in range(arguments.rounds):
        for name, measure in sides.items():
            with tempfile.TemporaryDirectory() as folder:
                step_ms, seen = measure(pathlib.Path(folder), arguments)
            times[name] += step_ms[WARM_UP:]
            memory[name] = max(seen, memory.get(name, seen), key=lambda watch: watch.total)
    show(arguments.layout, times, memory)


def show(layout, times, memory):
    tokens_per_s = {name: SEQUENCES * SEQ_LENGTH / statistics.median(values) * 1e3 for name, values in times.items()}
    print(f"llama-10m in fp32, {SEQUENCES} x {SEQ_LENGTH} tokens a step, {RANKS} processes of one thread; "
          f"llmtrain on {layout}")
    print(f"{'':10}{'median ms':>10}{'min ms':>10}{'tokens/s':>10}{'PSS GB':>10}{'of launcher':>13}")
    for name, values in times.items():
        print(f"{name:10}{statistics.median(values):10.0f}{min(values):10.0f}{tokens_per_s[name]:10.0f}"
              f"{memory[name].total / 1e9:10.2f}{memory[name].launcher / 1e9:13.3f}")
    for name in list(times)[1:]:
        print(f"llmtrain / {name:10}{'tokens/s':>19}{tokens_per_s['llmtrain'] / tokens_per_s[name]:10.2f}"
              f"   PSS {memory['llmtrain'].total / memory[name].total:.2f}", flush=True)


main()
