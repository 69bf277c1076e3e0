"""An independent PyTorch program repeats configs/smoke_dp2.yaml from its step-0 checkpoint.

Weights come from the safetensors of step 0, tokens from the written-down synthetic source, and the rest is
plain PyTorch on one process in fp64: the whole global batch at once, torch.optim.AdamW, torch's clipping. Losses,
gradient norms and learning rates of metrics.jsonl, the evaluations, and the final weights must agree.
"""

import math
import unittest

import torch
from safetensors.torch import load_file

from tests.e2e.harness import E2eTest
from tests.oracle import tiny_llama
from tests.oracle.synthetic_data import SyntheticData
from tests.support import main

# configs/smoke_dp2.yaml, and the defaults of docs/JOB_SPEC.md that it leaves alone.
SEED, VOCAB, SEQ_LENGTH, GLOBAL_BATCH, STEPS, WARMUP = 1234, 128, 32, 8, 20, 4
LAYERS, HEADS, KV_HEADS = 2, 4, 2
LR, MIN_RATIO, BETAS, EPS, DECAY, CLIP = 3e-3, 0.1, (0.9, 0.95), 1e-8, 0.1, 1.0
EVAL_BATCHES = 2


def learning_rate(step):
    """Of the step-th update, from 1: linear warm-up to the peak, then a cosine to a tenth of it."""
    if step <= WARMUP:
        return LR * step / WARMUP
    progress = (step - WARMUP) / (STEPS - WARMUP)
    return LR * (MIN_RATIO + (1 - MIN_RATIO) * 0.5 * (1 + math.cos(math.pi * progress)))


def load_weights(step_directory):
    """The model's weights by name, put together from their parts: `name[0:64,0:32]` is a slice of `name`."""
    parts = {}
    for shard in sorted(step_directory.glob("weights-*.safetensors")):
        for label, tensor in load_file(shard).items():
            name, _, slices = label.rstrip("]").partition("[")
            ranges = [tuple(map(int, s.split(":"))) for s in slices.split(",")] if slices else [(0, n) for n in tensor.shape]
            parts.setdefault(name, []).append((ranges, tensor))
    weights = {}
    for name, pieces in parts.items():
        shape = [max(ranges[dim][1] for ranges, _ in pieces) for dim in range(len(pieces[0][0]))]
        weights[name] = torch.full(shape, math.nan, dtype=torch.float64)
        for ranges, tensor in pieces:
            weights[name][tuple(slice(*r) for r in ranges)] = tensor.to(torch.float64)
        assert not weights[name].isnan().any(), f"{name} has holes"
    return weights


def loss_of(weights, rows):
    return tiny_llama.loss(weights, torch.tensor(rows), LAYERS, HEADS, KV_HEADS)


class SmokeOracle(E2eTest):
    def test_losses_are_recomputed_from_the_step_0_checkpoint(self):
        run, _ = self.launch("run")
        weights = load_weights(run.checkpoints()[0])
        self.assertEqual(len(weights), 3 + 9 * LAYERS)
        for weight in weights.values():
            weight.requires_grad_(True)
        groups = [{"params": [w for n, w in weights.items() if w.dim() == 2 and "embed" not in n], "weight_decay": DECAY},
                  {"params": [w for n, w in weights.items() if w.dim() == 1 or "embed" in n], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
        data = SyntheticData(SEED, VOCAB, SEQ_LENGTH)
        held_out = SyntheticData(SEED, VOCAB, SEQ_LENGTH, valid=True)
        evals = {event["step"]: event["loss"] for event in run.events("eval")}

        for row in run.metrics():
            step = row["step"]
            with self.subTest(step=step):
                batch = [data.sample((step - 1) * GLOBAL_BATCH + i) for i in range(GLOBAL_BATCH)]
                optimizer.zero_grad()
                loss = loss_of(weights, batch)
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP)
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(step)
                optimizer.step()

                self.assertAlmostEqual(row["loss"] / loss.item(), 1, delta=1e-5)
                self.assertAlmostEqual(row["grad_norm"] / norm.item(), 1, delta=1e-4)
                self.assertAlmostEqual(row["lr"] / learning_rate(step), 1, delta=1e-6)
                if step in evals:
                    rows = [held_out.sample(i) for i in range(EVAL_BATCHES * GLOBAL_BATCH)]
                    self.assertAlmostEqual(evals[step] / loss_of(weights, rows).item(), 1, delta=1e-5)

        self.assertEqual(sorted(evals), [10, 20])
        final = load_weights(run.checkpoints()[-1])
        for name, expected in weights.items():
            difference = (final[name] - expected.detach()).abs().max().item()
            self.assertLess(difference, 1e-5 * max(1.0, expected.abs().max().item()), name)


if __name__ == "__main__":
    main.run()
