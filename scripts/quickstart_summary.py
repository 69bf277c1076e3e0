"""What the run of quickstart.sh learned, in a few lines; fails when it learned too little.

    quickstart_summary.py FOLDER      reads FOLDER/run, FOLDER/eval.json and the validation tokens
"""

import array
import collections
import json
import math
import pathlib
import sys


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def unigram_entropy(folder):
    """Nats per token of the best model that ignores context, on these very tokens (uint16 .bin files)."""
    counts = collections.Counter()
    for path in folder.glob("*.bin"):
        tokens = array.array("H")
        tokens.frombytes(path.read_bytes())
        counts.update(tokens)
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values()), total


def main():
    folder = pathlib.Path(sys.argv[1])
    history = {row["step"]: row for row in rows(folder / "run/metrics.jsonl")}
    events = rows(folder / "run/events.jsonl")
    first, last = history[min(history)], history[max(history)]
    scored = json.loads((folder / "eval.json").read_text())
    entropy, tokens = unigram_entropy(folder / "data/valid")
    bits = scored["bits_per_byte"]
    evals = {e["step"]: e["loss"] for e in events if e["event"] == "eval"}
    restarts = [e for e in events if e["event"] == "restart"]

    print(f"training loss     step {first['step']}: {first['loss']:.3f}    step {last['step']}: {last['loss']:.3f}")
    print("validation loss   " + "    ".join(f"step {step}: {loss:.3f}" for step, loss in sorted(evals.items())))
    print(f"whole validation  loss {scored['loss']:.3f} nats per token, {bits:.3f} bits per byte")
    print(f"unigram entropy   {entropy:.3f} nats per token, {entropy / scored['loss'] * bits:.3f} bits per byte"
          f" ({tokens} validation tokens, context ignored)")
    print(f"restarts          {len(restarts)}" + "".join(f": {e['reason']}" for e in restarts))
    if not (scored["loss"] < entropy - 0.5 and last["loss"] < first["loss"]):
        sys.exit("the validation loss should end clearly below the unigram entropy, and did not")


if __name__ == "__main__":
    main()
