"""Optimizers, clipping and learning-rate schedules against PyTorch's own, over 20 updates.

optim_oracle_dump writes starting weights, the gradients of every update and everything that our code made of
them; here torch.optim, clip_grad_norm_ and torch.optim.lr_scheduler walk the same way. fp32 agrees to 1e-6 and
fp64 to 1e-12 of the largest value; bf16 weights are the rounded fp32 masters.
"""

import math
import os
import subprocess
import tempfile
import unittest

import numpy
import torch
from torch.optim import lr_scheduler

from tests.support.main import run

UPDATES, WARMUP, DECAY, PEAK, RATIO = 20, 5, 6, 0.02, 0.1
WEIGHT_DECAY, MAX_NORM = 0.3, 5.0
SIZES = {"matrix": 48, "norm": 7}
TOLERANCE = {"fp32": 1e-6, "bf16": 1e-6, "fp64": 1e-12}


def schedulers(optimizer):
    """Each style as PyTorch composes it; the epoch of update k is k - 1."""
    warmup = lambda: lr_scheduler.LinearLR(optimizer, 1 / WARMUP, 1.0, WARMUP - 1)
    decay = lambda steps: lr_scheduler.LinearLR(optimizer, 1.0, RATIO, steps)
    after = lambda *parts, at: lr_scheduler.SequentialLR(optimizer, [warmup(), *parts], at)
    return {
        "constant": lambda: warmup(),
        "linear": lambda: after(decay(UPDATES - WARMUP), at=[WARMUP - 1]),
        "cosine": lambda: after(
            lr_scheduler.CosineAnnealingLR(optimizer, UPDATES - WARMUP, RATIO * PEAK), at=[WARMUP - 1]),
        "wsd": lambda: after(
            lr_scheduler.ConstantLR(optimizer, 1.0), decay(DECAY), at=[WARMUP - 1, UPDATES - DECAY - 1]),
        "inverse_sqrt": lambda: after(
            lr_scheduler.LambdaLR(optimizer, lambda epoch: max(math.sqrt(WARMUP / (epoch + WARMUP)), RATIO)),
            at=[WARMUP - 1]),
    }


class Optimizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        program = os.path.join(os.environ["LLMTRAIN_BINARY_DIR"], "tests", "optim_oracle_dump")
        subprocess.run([program, cls.directory.name], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def ours(self, name):
        return torch.from_numpy(numpy.fromfile(os.path.join(self.directory.name, name), dtype="<f8"))

    def assert_close(self, ours, theirs, tolerance, what):
        difference = (ours - theirs.double()).abs().max().item()
        largest = theirs.double().abs().max().item()
        self.assertGreater(largest, 0, what)
        self.assertLessEqual(difference, tolerance * largest, what)

    def walk(self, kind, precision):
        """Runs PyTorch over our gradients and compares after every update."""
        case, tolerance = f"{kind}_{precision}", TOLERANCE[precision]
        dtype = torch.float64 if precision == "fp64" else torch.float32
        parameters = {n: torch.nn.Parameter(self.ours(f"{case}.{n}.start").to(dtype)) for n in SIZES}
        groups = [{"params": [parameters["matrix"]], "weight_decay": WEIGHT_DECAY if kind == "adamw" else 0.0},
                  {"params": [parameters["norm"]], "weight_decay": 0.0}]
        if kind == "adamw":
            optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=(0.9, 0.95), eps=1e-8)
        else:
            optimizer = torch.optim.SGD(groups, lr=PEAK, momentum=0.9 if kind == "momentum" else 0.0)
        schedule = schedulers(optimizer)["cosine"]()
        columns = {f"{n}.{a}": self.ours(f"{case}.{n}.{a}").view(UPDATES, size)
                   for n, size in SIZES.items() for a in ("grad", "master", "weight")}
        norms = self.ours(f"{case}.norm_before_clipping")
        clipped = 0
        for k in range(UPDATES):
            for n, parameter in parameters.items():
                parameter.grad = columns[f"{n}.grad"][k].to(dtype)
            norm = torch.nn.utils.clip_grad_norm_(list(parameters.values()), MAX_NORM)
            clipped += norm.item() > MAX_NORM
            self.assert_close(norms[k], norm, tolerance, f"{case} update {k + 1} norm")
            if kind != "adamw":  # ours is decoupled
                with torch.no_grad():
                    parameters["matrix"].mul_(1 - optimizer.param_groups[0]["lr"] * WEIGHT_DECAY)
            optimizer.step()
            schedule.step()
            for n, parameter in parameters.items():
                self.assert_close(columns[f"{n}.master"][k], parameter.detach(), tolerance, f"{case} update {k + 1} {n}")
        self.assertTrue(0 < clipped < UPDATES, "the test must see clipped and unclipped updates")
        states = {"adamw": ["exp_avg", "exp_avg_sq"], "momentum": ["momentum"], "sgd": []}[kind]
        for n, parameter in parameters.items():
            for name in states:
                theirs = optimizer.state[parameter]["momentum_buffer" if name == "momentum" else name]
                self.assert_close(self.ours(f"{case}.{n}.{name}"), theirs, tolerance, f"{case} {n} {name}")
            weight, master = columns[f"{n}.weight"], columns[f"{n}.master"]
            expected = master.float().bfloat16().double() if precision == "bf16" else master
            self.assertTrue(torch.equal(weight, expected), f"{case} {n} weights")

    def test_optimizers(self):
        for kind in ("adamw", "sgd", "momentum"):
            for precision in TOLERANCE:
                with self.subTest(kind=kind, precision=precision):
                    self.walk(kind, precision)

    def test_schedules(self):
        for style in ("constant", "linear", "cosine", "wsd", "inverse_sqrt"):
            with self.subTest(style=style):
                optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
                schedule = schedulers(optimizer)[style]()
                ours = self.ours(f"{style}.lr")
                self.assertEqual(len(ours), UPDATES)
                for k in range(UPDATES):
                    theirs = optimizer.param_groups[0]["lr"]
                    self.assertAlmostEqual(ours[k].item() / theirs, 1.0, delta=1e-12, msg=f"{style} update {k + 1}")
                    optimizer.step()
                    schedule.step()


if __name__ == "__main__":
    run()
