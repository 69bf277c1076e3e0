"""What logging, tracing and the call check cost a step: the same tiny job with all of it and with none, in turn.

    bench/overhead.py [--rounds 5] [--steps 400]

The model is so small that the step is a few milliseconds; what is added is the same in a long step. Wall time per
step is taken from the first to the last row of metrics.jsonl, so that writing the rows is inside.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OFF = ["monitoring.tensorboard=false", "monitoring.trace_collectives=false", "monitoring.check_collectives=false"]
ON = [setting.replace("false", "true") for setting in OFF]


def milliseconds_per_step(settings, steps):
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder) / "run"
        every = [f"run.dir={run_dir}", f"train.duration={steps} steps", "train.eval_interval=0",
                 "checkpoint={interval: 0}", "monitoring.peak_tflops=1", *settings]
        command = [ROOT / "build/release/llmtrain", "launch", ROOT / "configs/smoke_dp2.yaml"]
        subprocess.run([*command, *(word for setting in every for word in ("--set", setting))],
                       check=True, capture_output=True)
        rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    times = [row["time"] for row in rows if "step_ms" in row]
    waits = [row["data_wait_ms"] for row in rows if "step_ms" in row]
    return (times[-1] - times[0]) / (len(times) - 1) * 1e3, statistics.median(waits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()
    taken = {"all on": [], "all off": []}
    waits = []
    for _ in range(arguments.rounds):
        for name, settings in (("all on", ON), ("all off", OFF)):
            per_step, wait = milliseconds_per_step(settings, arguments.steps)
            taken[name].append(per_step)
            waits.append(wait)
    for name, values in taken.items():
        print(f"{name:8} median {statistics.median(values):7.3f} ms a step, {min(values):.3f} to {max(values):.3f}")
    added = statistics.median(taken["all on"]) - statistics.median(taken["all off"])
    wait = statistics.median(waits)
    print(f"added    {added * 1e3:7.0f} us a step, waiting for data {wait * 1e3:.0f} us: "
          f"{(added + wait) / 1000:.2%} of a step of one second, all medians")


main()
