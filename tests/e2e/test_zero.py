"""configs/cpu_zero3.yaml: four processes that own a quarter of everything are one process, on disk and in numbers."""

import json
import unittest

from tests.e2e.harness import ROOT, E2eTest
from tests.support import main

CONFIG = ROOT / "configs/cpu_zero3.yaml"
STEPS, LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 20, 8, 64, 8, 4, 8, 192, 512
DP, GLOBAL_BATCH, MICRO_BATCH, EVAL_STEPS = 4, 16, 2, 2
ALIGNMENT = 32 * DP  # elements; every rank's part of a buffer is as long as any other's


def padded(elements):
    return -(-elements // ALIGNMENT) * ALIGNMENT


EMBEDDING = padded(VOCAB * HIDDEN)
BLOCK = padded(2 * HEADS * HEAD_DIM * HIDDEN + 2 * KV_HEADS * HEAD_DIM * HIDDEN + 3 * FFN * HIDDEN + 2 * HIDDEN)
HEAD = padded(VOCAB * HIDDEN + HIDDEN)
ALL = EMBEDDING + LAYERS * BLOCK + HEAD
LANES = 2 * BLOCK + HEAD  # a block and its neighbour are whole at a time, and the head
PARAMETERS = 2 * VOCAB * HIDDEN + LAYERS * BLOCK + HIDDEN  # blocks need no padding


def layout(dp, stage, tp=1):
    return (f"parallelism={{dp: {dp}, tp: {tp}, zero_stage: {stage}}}",)


ALONE = layout(1, 0)


class Zero(E2eTest):
    def launch_config(self, name, *overrides):
        return self.launch(name, *overrides, config=CONFIG)[0]

    def assert_close(self, run, other):
        self.assertEqual(set(run.losses()), set(other.losses()))
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
        """Gradients are scattered in every micro-batch; weights are gathered where their lane held others. The head
        has a lane to itself and stays there until weights change."""
        accumulation = GLOBAL_BATCH // (DP * MICRO_BATCH)
        first = EMBEDDING + HEAD + (2 * LAYERS - 2) * BLOCK  # the last two blocks are still there when backward comes
        later = EMBEDDING + (2 * LAYERS - 3) * BLOCK  # and so is the first one in the next micro-batch
        passes = EVAL_STEPS * GLOBAL_BATCH // (DP * MICRO_BATCH)  # of one of two evaluations
        evaluated = 2 * (HEAD + passes * (EMBEDDING + LAYERS * BLOCK))
        gathered = STEPS * (first + (accumulation - 1) * later) + evaluated
        gathered -= HEAD  # the step after the first evaluation finds it there
        expected = {("dp", "all_gather"): gathered // DP * 4,
                    ("dp", "reduce_scatter"): STEPS * accumulation * ALL * 4,
                    ("dp", "all_reduce"): STEPS * 8}
        totals = run.events("comm_totals")
        for rank in range(DP):
            found = {(t["axis"], t["op"]): t["bytes"] for t in totals if t["rank"] == rank and t["axis"] != "world"}
            self.assertEqual(found, expected)

    def check_memory(self, run):
        reports = run.events("memory")
        self.assertEqual({r["rank"] for r in reports}, set(range(DP)))
        for report in reports:
            self.assertEqual(report["params"], 4 * (ALL // DP + LANES))
            self.assertEqual(report["grads"], 4 * (ALL // DP + LANES))
        self.assertEqual(sum(r["optimizer"] for r in reports), 8 * PARAMETERS)

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

    def test_resumes_on_other_layouts(self):
        one = self.launch_config("one", *ALONE)
        for name, first, then in (("to-one", layout(4, 3), ALONE),
                                  ("from-one", ALONE, layout(2, 3, tp=2)),
                                  ("between-stages", layout(2, 2, tp=2), layout(4, 1))):
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
        for rank in range(DP):
            with self.subTest(rank=rank):
                fault = f"faults=[{{kind: kill, rank: {rank}, step: {6 + 3 * rank}, point: backward}}]"
                run = self.launch_config(f"killed-{rank}", fault)
                self.assert_identical(run, undisturbed)
                self.assertEqual(run.losses(), undisturbed.losses())


if __name__ == "__main__":
    main.run()
