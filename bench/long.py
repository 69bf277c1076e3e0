"""One step over a sequence of 131,072 tokens: four ranks that share it fit where one rank does not.

    bench/long.py [--tokens 131072] [--cap-gb 1.2] [--without-cap]

Every process may allocate no more than the cap (RLIMIT_DATA: private memory; shared pages and code do not count), as
a device has no more than its memory. Four ranks make the step by ring attention; one rank, with both cores, must
fail. --without-cap then lets it have what it wants, so that loss and activations can be compared.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

JOB = """
version: 1
run: {{name: long, dir: "{run_dir}", device: cpu}}
model: {{family: llama, vocab_size: 512, hidden_size: 32, num_layers: 1, num_heads: 1, ffn_hidden_size: 1024}}
data: {{seq_length: {tokens}, train: [{{path: synthetic}}], prefetch: 1}}
parallelism: {{sp: {sp}}}
batch: {{micro_batch_size: 1}}
precision: {{compute: fp32}}
train: {{duration: 1 steps, compute_threads: {threads}}}
resilience: {{max_restarts: 0, collective_timeout_s: 3600}}
monitoring: {{peak_tflops: 1, tensorboard: false}}
"""


class Run:
    """A finished launch: exit code, seconds, and what its files say."""

    def __init__(self, sp, cap_bytes, tokens):
        with tempfile.TemporaryDirectory() as folder:
            self.run_dir = pathlib.Path(folder) / "run"
            job = pathlib.Path(folder) / "job.yaml"
            job.write_text(JOB.format(run_dir=self.run_dir, sp=sp, tokens=tokens, threads=max(1, 2 // sp)))
            limit = (cap_bytes or resource.RLIM_INFINITY,) * 2
            began = time.monotonic()
            done = subprocess.run([ROOT / "build/release/llmtrain", "launch", job], capture_output=True, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limit))
            self.seconds = time.monotonic() - began
            self.code, self.stderr = done.returncode, done.stderr
            self.losses = [row["loss"] for row in self.rows("metrics.jsonl") if "loss" in row]
            self.activations = [row["activations_peak"] for row in self.rows("events.jsonl") if row["event"] == "memory"]

    def rows(self, name):
        path = self.run_dir / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def why(self):
        """The line of the output that says what went wrong."""
        lines = [line for line in self.stderr.splitlines() if "memory" in line or "alloc" in line]
        return (lines or self.stderr.splitlines() or ["nothing was said"])[0].strip()[:160]

    def row(self, name):
        if self.code != 0:
            return f"{name:28}{self.code:5}{self.seconds:10.0f}   {self.why()}"
        return (f"{name:28}{self.code:5}{self.seconds:10.0f}{self.losses[-1]:12.6f}"
                f"{max(self.activations) / 1e9:14.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=131072)
    parser.add_argument("--cap-gb", type=float, default=1.2)
    parser.add_argument("--without-cap", action="store_true", help="then one rank again, with all the memory there is")
    arguments = parser.parse_args()
    cap = int(arguments.cap_gb * 1e9)
    print(f"one step of {arguments.tokens} tokens, one layer of width 32 and feed-forward width 1024, fp32; a process may "
          f"allocate {arguments.cap_gb} GB")
    print(f"{'':28}{'exit':>5}{'seconds':>10}{'loss':>12}{'activations GB':>17} (peak of a rank)", flush=True)
    four = Run(4, cap, arguments.tokens)
    print(four.row("4 ranks, sp 4 (ring)"), flush=True)
    one = Run(1, cap, arguments.tokens)
    print(one.row("1 rank"), flush=True)
    if arguments.without_cap:
        print(Run(1, 0, arguments.tokens).row("1 rank without the cap"), flush=True)
    if four.code != 0 or one.code == 0:
        sys.exit("four ranks should fit under the cap, and one should not")


main()
