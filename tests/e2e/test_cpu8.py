"""configs/cpu8_*.yaml: eight processes that share the work in every way are the one process of configs/cpu1.yaml.

That work was really cut shows in what ranks held and sent: both equal what `validate --json` computes on paper.
"""

import json
import unittest

from tests.e2e.harness import ROOT, E2eTest
from tests.support import main

CONFIGS = sorted((ROOT / "configs").glob("cpu8_*.yaml"))
STEPS, COUNTED_STEPS = 20, 3
LAYERS, HIDDEN = 8, 64
NORM = 8  # bytes: the sum of squares, over every group whose ranks count different elements


class Cpu8(E2eTest):
    @classmethod
    def setUpClass(cls):
        cls.one = None

    def losses_of_one(self):
        if Cpu8.one is None:
            Cpu8.one = self.launch("one", config=ROOT / "configs/cpu1.yaml")[0].losses()
        return Cpu8.one

    def test_there_are_those_that_the_issue_names(self):
        self.assertLessEqual({"cpu8_tp2_pp2_dp2", "cpu8_pp4_interleaved_dp2", "cpu8_sp2_tp2_dp2_ring", "cpu8_zero3",
                              "cpu8_hsdp"}, {config.stem for config in CONFIGS})

    def test_losses_are_those_of_one_process(self):
        one = self.losses_of_one()
        self.assertEqual(set(one), set(range(1, STEPS + 1)))
        self.assertLess(one[STEPS], one[1] - 0.1)
        for config in CONFIGS:
            with self.subTest(config.stem):
                run, _ = self.launch(config.stem, config=config)
                self.assertEqual(set(run.losses()), set(one))
                for step, loss in one.items():
                    self.assertAlmostEqual(run.losses()[step] / loss, 1, delta=1e-4, msg=f"step {step}")
                self.assertEqual(run.checkpoint_steps(), [5, 10, 15, 20])
                self.assertEqual(run.events("run_started")[0]["world_size"], 8)
                self.assert_verified(run)

    def test_ranks_hold_and_send_what_the_closed_forms_say(self):
        for config in CONFIGS:
            with self.subTest(config.stem):
                paper = json.loads(self.expect(0, "validate", "--json", config).out)
                run, _ = self.launch(f"{config.stem}-counted", f"train={{duration: {COUNTED_STEPS} steps, eval_interval: 0}}",
                                     "lr_schedule.warmup=1 steps", "checkpoint.interval=0", config=config)
                layout = paper["spec"]["parallelism"]
                stages = paper["pipeline"]["stages"] if paper["pipeline"] else [paper["rank"]]
                for stage, costs in enumerate(stages):
                    rank = stage * layout["dp"] * layout["sp"] * layout["tp"]
                    self.check_memory(run, rank, costs)
                    norms = 2 * costs.get("layers", LAYERS) + (stage + 1 == len(stages))
                    self.check_communication(run, rank, self.expected_bytes(costs, layout, norms * HIDDEN * 4))

    def check_memory(self, run, rank, costs):
        report = next(event for event in run.events("memory") if event["rank"] == rank)
        self.assertEqual({key: report[key] for key in ("params", "grads", "optimizer")},
                         {key: costs[key] for key in ("params", "grads", "optimizer")})

    def check_communication(self, run, rank, expected):
        found = {(t["axis"], t["op"]): t["bytes"] for t in run.events("comm_totals")
                 if t["rank"] == rank and t["axis"] != "world" and t["bytes"] > 0}
        self.assertEqual(found, expected)

    @staticmethod
    def expected_bytes(costs, layout, norm_bytes):
        """By (axis, operation), of all steps: what `validate` says of one, and what begins and ends a run."""
        expected = {}

        def add(axis, operation, bytes_of_a_step, times=COUNTED_STEPS):
            if bytes_of_a_step:
                key = (axis, operation)
                expected[key] = expected.get(key, 0) + times * bytes_of_a_step

        for axis, operations in costs["axes"].items():
            for operation, traffic in operations.items():
                add(axis, operation, traffic["bytes"])
        group = "dp_sp" if layout["dp"] > 1 and layout["sp"] > 1 else "sp" if layout["sp"] > 1 else "dp"
        hybrid = layout["zero_stage"] > 0 and layout["dp_shard"] not in ("auto", layout["dp"] * layout["sp"])
        shards = "dp_shard" if hybrid else group
        add("dp_replicas", "all_reduce", costs["all_reduce_over_copies"]["bytes"])
        for operation in ("all_reduce", "reduce_scatter", "all_gather"):
            add(shards, operation, costs[operation]["bytes"])
        if layout["zero_stage"] in (1, 2):  # weights that were initialised are gathered once
            add(shards, "all_gather", costs["all_gather"]["bytes"], 1)
        if layout["pp"] > 1:
            add("pp", "all_reduce", NORM)
        if layout["tp"] > 1:
            add("tp", "all_reduce", NORM + (norm_bytes if layout["tp_shard_sequence"] else 0))
        return expected


if __name__ == "__main__":
    main.run()
