"""One whole run of configs/smoke_dp2.yaml, and everything that it owes to its run directory."""

import math
import unittest

from tests.e2e.harness import ROOT, SMOKE, E2eTest
from tests.support import main

METRIC_KEYS = {"step", "loss", "grad_norm", "lr", "tokens", "tok_s", "step_ms", "mfu", "mem_gb", "skipped",
               "incarnation", "time"}
STEPS, RANKS, GLOBAL_BATCH, SEQ_LENGTH = 20, 2, 8, 32
# Parameters of the model of smoke_dp2.yaml, by hand: embedding and head 128 x 32; in each of 2 blocks q 32 x 32,
# k and v 16 x 32, o 32 x 32, gate, up and down 64 x 32, two norms of 32; the final norm of 32.
PARAMETERS = 2 * 128 * 32 + 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32 + 2 * 32) + 32


class Smoke(E2eTest):
    def test_leaves_a_complete_run_directory(self):
        run, result = self.launch("run")

        self.check_files(run)
        self.check_metrics(run)
        self.check_events(run)
        self.check_communication(run)
        self.check_memory(run)
        self.check_console(result)
        self.assert_verified(run)
        self.check_resume_of_the_finished_run(run)

    def check_files(self, run):
        for name in ("spec.source.yaml", "spec.yaml", "spec-0.yaml", "metrics.jsonl", "events.jsonl",
                     "logs/0/node0/rank0.out", "logs/0/node0/rank0.err", "logs/0/node0/rank1.err", "control"):
            self.assertTrue((run.path / name).exists(), name)
        self.assertEqual(run.checkpoint_steps(), [0, 5, 10, 15, 20])
        self.assertEqual([p.name for p in (run.path / "checkpoints").iterdir() if p.name.startswith(".")], [])
        self.assertTrue(list(run.path.glob("tensorboard/*tfevents*")))

    def check_metrics(self, run):
        rows = run.metrics()
        self.assertEqual([row["step"] for row in rows], list(range(1, STEPS + 1)))
        for row in rows:
            self.assertLessEqual(METRIC_KEYS, row.keys())
            self.assertEqual(row["tokens"], row["step"] * GLOBAL_BATCH * SEQ_LENGTH)
            self.assertEqual((row["skipped"], row["incarnation"]), (0, 0))
            self.assertTrue(math.isfinite(row["loss"]) and row["grad_norm"] > 0)
        self.assertAlmostEqual(rows[0]["loss"], math.log(128), delta=0.5)  # nothing learnt yet
        self.assertLess(rows[-1]["loss"], rows[0]["loss"] - 0.1)
        # Linear warm-up over 4 steps to the peak, then a cosine that ends at a tenth of it.
        self.assertAlmostEqual(rows[3]["lr"], 3e-3, places=9)
        self.assertAlmostEqual(rows[-1]["lr"], 3e-4, delta=3e-5)

    def check_events(self, run):
        self.assertEqual([e["step"] for e in run.events("checkpoint_saved")], [0, 5, 10, 15, 20])
        evals = run.events("eval")
        self.assertEqual([e["step"] for e in evals], [10, 20])
        for event in evals:
            self.assertEqual(event["tokens"], 2 * GLOBAL_BATCH * SEQ_LENGTH)
            self.assertTrue(math.isfinite(event["loss"]))
        (started,) = run.events("run_started")
        self.assertEqual((started["world_size"], started["total_steps"], started["parameters"]), (RANKS, STEPS, PARAMETERS))
        (finished,) = run.events("run_finished")
        self.assertEqual((finished["code"], finished["step"]), (0, STEPS))

    def check_communication(self, run):
        """Every rank hands every fp32 gradient to its peers exactly once a step: a replicated run would not."""
        totals = run.events("comm_totals")
        self.assertEqual({t["rank"] for t in totals}, set(range(RANKS)))
        for rank in range(RANKS):
            gradient_bytes = sum(t["bytes"] for t in totals if t["rank"] == rank and t["axis"] == "dp"
                                 and t["op"] in ("all_reduce", "reduce_scatter"))
            self.assertEqual(gradient_bytes, STEPS * PARAMETERS * 4)

    def check_memory(self, run):
        reports = run.events("memory")
        self.assertEqual({r["rank"] for r in reports}, set(range(RANKS)))
        for report in reports:
            for key, ideal in (("params", 4), ("grads", 4), ("optimizer", 8)):
                self.assertEqual(report[key], ideal * PARAMETERS, key)
            self.assertGreater(report["activations_peak"], 0)

    def check_console(self, result):
        lines = [l for l in result.out.splitlines() + result.err.splitlines() if l.startswith("step=20 ")]
        self.assertEqual(len(lines), 1, str(result))
        for key in ("loss=", "grad_norm=", "lr=", "tokens=", "tok_s=", "step_ms=", "mfu=", "mem_gb="):
            self.assertIn(key, lines[0])

    def check_resume_of_the_finished_run(self, run):
        before = sorted((p, p.stat().st_mtime_ns) for p in (run.path / "checkpoints").rglob("*"))
        for command in (["resume", run.path], ["launch", SMOKE, "--set", f"run.dir={run.path}"]):
            result = self.expect(0, *command)
            self.assertIn("finished", (result.out + result.err).lower())
        self.assertEqual(before, sorted((p, p.stat().st_mtime_ns) for p in (run.path / "checkpoints").rglob("*")))
        self.assertEqual(run.last_step(), STEPS)
        self.assertEqual(len(run.metrics()), STEPS)

    def test_same_seed_is_bit_equal_and_another_seed_is_different(self):
        one, _ = self.launch("one")
        two, _ = self.launch("two")
        other, _ = self.launch("other", "run.seed=4321")

        self.assert_identical(one, two)
        self.assertEqual(one.losses(), two.losses())
        result = self.expect(1, "ckpt", "diff", one.path, other.path)
        self.assertIn("different", result.out.splitlines()[-1])

    def test_one_process_runs_too(self):
        run, _ = self.launch("run", config=ROOT / "configs/smoke_1rank.yaml")
        self.assertEqual(run.last_step(), 10)
        self.assertEqual(run.checkpoint_steps(), [10])  # a run that ends always commits its last step


class Examples(E2eTest):
    def test_every_example_runs_as_it_stands(self):
        examples = sorted((ROOT / "examples").glob("*.yaml"))
        self.assertEqual([p.stem for p in examples], ["gpt2", "llama", "mistral", "qwen2", "qwen3"])
        for example in examples:
            with self.subTest(example=example.name):
                run, _ = self.launch(example.stem, config=example)
                losses = run.losses()
                self.assertLess(losses[max(losses)], losses[1])
                self.assert_verified(run)


if __name__ == "__main__":
    main.run()
