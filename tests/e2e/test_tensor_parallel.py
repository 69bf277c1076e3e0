"""configs/cpu_tp2_dp2.yaml: four processes that hold half a model each are one process, on disk and in numbers."""

import json
import unittest

from tests.e2e.harness import ROOT, E2eTest
from tests.support import main

CONFIG = ROOT / "configs/cpu_tp2_dp2.yaml"
STEPS, LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 20, 8, 64, 8, 4, 8, 192, 512
TP, DP, GLOBAL_BATCH, SEQ_LENGTH, MICRO_BATCH = 2, 2, 16, 64, 2
# Of one rank, by hand: half of every matrix, all of every norm.
MATRICES = 2 * VOCAB * HIDDEN + LAYERS * (2 * HEADS * HEAD_DIM * HIDDEN + 2 * KV_HEADS * HEAD_DIM * HIDDEN
                                          + 3 * FFN * HIDDEN)
PARAMETERS = MATRICES // TP + (2 * LAYERS + 1) * HIDDEN
ALONE = ("parallelism={tp: 1, dp: 1, tp_shard_sequence: false}",)
SHARDED = ("parallelism={tp: 2, dp: 2, tp_shard_sequence: true}",)


class TensorParallel(E2eTest):
    def launch_config(self, name, *overrides):
        return self.launch(name, *overrides, config=CONFIG)[0]

    def assert_close(self, run, other):
        for step, loss in other.losses().items():
            self.assertAlmostEqual(run.losses()[step] / loss, 1, delta=1e-4)

    def test_is_the_run_of_one_process(self):
        run = self.launch_config("run")
        one = self.launch_config("one", *ALONE)
        self.assertEqual(run.last_step(), STEPS)
        self.assert_close(run, one)
        self.assertLess(run.losses()[STEPS], run.losses()[1] - 0.1)
        for event, other in zip(run.events("eval"), one.events("eval"), strict=True):
            self.assertEqual((event["step"], event["tokens"]), (other["step"], other["tokens"]))
            self.assertAlmostEqual(event["loss"] / other["loss"], 1, delta=1e-4)
        self.assert_verified(run)
        self.check_communication(run)
        self.check_memory(run)
        self.check_inference(run, one)

    def check_communication(self, run):
        """A sum over tp for each half of each block, forward and backward, and for embedding and head."""
        micro_batches = STEPS * GLOBAL_BATCH // (DP * MICRO_BATCH)
        evaluated = 2 * 2 * GLOBAL_BATCH // (DP * MICRO_BATCH)  # two evaluations of two batches
        tokens = MICRO_BATCH * SEQ_LENGTH
        crossings = micro_batches * (4 * LAYERS + 2) + evaluated * (2 * LAYERS + 1)
        expected = {("tp", "all_reduce"): crossings * tokens * HIDDEN * 4 + STEPS * 8,
                    ("tp", "all_gather"): (micro_batches + evaluated) * tokens * 3 * 8,
                    ("dp", "all_reduce"): STEPS * PARAMETERS * 4}
        totals = run.events("comm_totals")
        for rank in range(TP * DP):
            found = {(t["axis"], t["op"]): t["bytes"] for t in totals if t["rank"] == rank and t["axis"] != "world"}
            self.assertEqual(found, expected)

    def check_memory(self, run):
        reports = run.events("memory")
        self.assertEqual({r["rank"] for r in reports}, set(range(TP * DP)))
        for report in reports:
            for key, bytes_each in (("params", 4), ("grads", 4), ("optimizer", 8)):
                self.assertEqual(report[key], bytes_each * PARAMETERS, key)

    def check_inference(self, *runs):
        """One process reads what four wrote as it reads what one wrote."""
        text = self.folder / "text.txt"
        text.write_text("It was the best of times, it was the worst of times. " * 20)
        scores, samples = [], []
        for run in runs:
            score = self.expect(0, "eval", "--checkpoint", run.path, "--data", text, "--tokenizer", "bytes", "--json")
            scores.append(json.loads(score.out))
            sample = self.expect(0, "generate", "--checkpoint", run.path, "--tokenizer", "bytes", "--prompt", "It was",
                                 "--max-tokens", 8, "--temperature", 0, "--json")
            samples.append(json.loads(sample.out))
        self.assertEqual(scores[0]["tokens"], scores[1]["tokens"])
        self.assertAlmostEqual(scores[0]["loss"] / scores[1]["loss"], 1, delta=1e-4)
        self.assertEqual(samples[0].get("text"), samples[1].get("text"))

    def test_a_sharded_sequence_is_the_same_run(self):
        """Every sum over tp becomes a scattered sum and a gather."""
        one = self.launch_config("one", *ALONE)
        known_peak = "monitoring.peak_tflops=0.1"  # measuring it would take more memory than this model
        whole = self.launch_config("whole", known_peak)
        run = self.launch_config("run", *SHARDED, known_peak)
        self.assert_close(run, one)
        sharded, unsharded = self.activation_peaks(run), self.activation_peaks(whole)
        print(f"activations_peak: {unsharded} whole, {sharded} sharded", flush=True)
        for rank in range(TP * DP):
            self.assertLess(sharded[rank], unsharded[rank])
        for total in run.events("comm_totals"):
            if (total["axis"], total["op"]) == ("tp", "all_reduce"):  # norms of blocks and head, and the norm
                self.assertEqual(total["bytes"], STEPS * (4 * (2 * LAYERS + 1) * HIDDEN + 8))

    @staticmethod
    def activation_peaks(run):
        return {report["rank"]: report["activations_peak"] for report in run.events("memory")}

    def test_resumes_on_other_layouts(self):
        one = self.launch_config("one", *ALONE)
        for name, first, then in (("two-to-one", SHARDED, ALONE),
                                  ("one-to-four", ALONE, ("parallelism={tp: 4, dp: 1}",))):
            with self.subTest(name):
                running, run = self.start_launch(name, *first, "faults=[{kind: sleep, ms: 100, each: step}]",
                                                 config=CONFIG)
                self.wait_for_step(run, 7, running)
                running.signal(15)
                self.assertEqual(running.finish().code, 75)
                self.resume(run, *then, "faults=[]")
                self.assert_close(run, one)

    def test_kill_9_of_any_rank_equals_the_undisturbed_run(self):
        undisturbed = self.launch_config("undisturbed")
        for rank in range(TP * DP):
            with self.subTest(rank=rank):
                fault = f"faults=[{{kind: kill, rank: {rank}, step: {6 + 3 * rank}, point: backward}}]"
                run = self.launch_config(f"killed-{rank}", fault)
                self.assert_identical(run, undisturbed)
                self.assertEqual(run.losses(), undisturbed.losses())


if __name__ == "__main__":
    main.run()
