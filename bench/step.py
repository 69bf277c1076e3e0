"""Optimizer steps of llama-10m on one process: the launched product and PyTorch, in turn.

    bench/step.py [--rounds 3] [--steps 12] [--threads 2]

Rounds alternate between the two, so that a slow minute of the machine hits both. A step is forward,
backward, clipping and AdamW over micro-batch 8 x 256 tokens; peak memory is the resident set of the
process that trains.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS = 8 * 256
WARM_UP = 2  # steps of each process that are not counted

JOB = """
version: 1
run: {{name: bench, dir: "{run_dir}", device: cpu}}
model: {{preset: llama-10m}}
data: {{seq_length: 256, train: [{{path: synthetic}}]}}
batch: {{micro_batch_size: 8}}
precision: {{compute: {precision}}}
train: {{duration: {steps} steps, compute_threads: {threads}}}
monitoring: {{peak_tflops: 1}}
"""


def of_llmtrain(precision, steps, threads):
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder) / "run"
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(JOB.format(run_dir=run_dir, precision=precision, steps=steps, threads=threads))
        subprocess.run([ROOT / "build/release/llmtrain", "launch", job], check=True, capture_output=True)
        rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "step_ms" in row]
    return [row["step_ms"] for row in rows], max(row["mem_gb"] for row in rows)


def of_pytorch(precision, steps, threads):
    command = [sys.executable, ROOT / "bench/pytorch_step.py", precision, str(steps), str(threads)]
    done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return done["step_ms"], done["peak_gb"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    sides = {"llmtrain": of_llmtrain, "PyTorch": of_pytorch}
    print(f"{'':18}{'median ms':>10}{'min ms':>10}{'tokens/s':>10}{'peak GB':>10}")
    for precision in ("fp32", "bf16"):
        times = {name: [] for name in sides}
        peaks = dict.fromkeys(sides, 0.0)
        for _ in range(arguments.rounds):
            for name, measure in sides.items():
                step_ms, peak_gb = measure(precision, arguments.steps, arguments.threads)
                times[name] += step_ms[WARM_UP:]
                peaks[name] = max(peaks[name], peak_gb)
        medians = {name: statistics.median(values) for name, values in times.items()}
        for name in sides:
            print(f"{precision:6}{name:12}{medians[name]:10.0f}{min(times[name]):10.0f}"
                  f"{TOKENS / medians[name] * 1e3:10.0f}{peaks[name]:10.2f}")
        print(f"{precision:6}{'ratio':12}{medians['llmtrain'] / medians['PyTorch']:10.2f}"
              f"{min(times['llmtrain']) / min(times['PyTorch']):10.2f}{'':10}{peaks['llmtrain'] / peaks['PyTorch']:10.2f}", flush=True)


main()
