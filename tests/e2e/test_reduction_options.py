"""Options that move the work of gradients and weights in time change no bit of what comes out."""

import unittest

from tests.e2e.harness import ROOT, E2eTest
from tests.support import main

SHORT = ("train={duration: 6 steps, eval_interval: 0}", "lr_schedule.warmup=1 steps", "checkpoint.interval=0")


class ReductionOptions(E2eTest):
    def check(self, config, *options):
        config = ROOT / "configs" / config
        plain, _ = self.launch(f"{config.stem}-plain", *SHORT, config=config)
        for place, option in enumerate(options):
            with self.subTest(config.stem, option=option):
                run, _ = self.launch(f"{config.stem}-{place}", *SHORT, option, config=config)
                self.assert_identical(run, plain)
                self.assertEqual(run.losses(), plain.losses())

    def test_without_overlap_and_in_buckets(self):
        self.check("cpu_tp2_dp2.yaml", "parallelism.overlap=false", "parallelism.bucket_size=1000")

    def test_sharded_without_overlap_and_with_weights_that_stay(self):
        self.check("cpu_zero3.yaml", "parallelism.overlap=false", "parallelism.reshard_after_forward=false")

    def test_in_a_pipeline(self):
        self.check("cpu8_tp2_pp2_dp2.yaml", "parallelism.overlap=false")


if __name__ == "__main__":
    main.run()
