"""configs/cpu_sp2_tp2_ring.yaml: four processes that share every sequence are one process, in numbers and on disk."""

import unittest

from tests.e2e.harness import ROOT, E2eTest
from tests.support import main

CONFIG = ROOT / "configs/cpu_sp2_tp2_ring.yaml"
STEPS, LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 20, 8, 64, 8, 4, 8, 192, 512
SP, TP, GLOBAL_BATCH, SEQ_LENGTH, MICRO_BATCH = 2, 2, 16, 64, 4
MATRICES = 2 * VOCAB * HIDDEN + LAYERS * (2 * HEADS * HEAD_DIM * HIDDEN + 2 * KV_HEADS * HEAD_DIM * HIDDEN
                                          + 3 * FFN * HIDDEN)
PARAMETERS = MATRICES // TP + (2 * LAYERS + 1) * HIDDEN  # of one rank
ALONE = ("parallelism={sp: 1, tp: 1}",)


class SequenceParallel(E2eTest):
    def launch_config(self, name, *overrides):
        return self.launch(name, *overrides, config=CONFIG)[0]

    def assert_close(self, run, other):
        for step, loss in other.losses().items():
            self.assertAlmostEqual(run.losses()[step] / loss, 1, delta=1e-4)
        for event, expected in zip(run.events("eval"), other.events("eval"), strict=True):
            self.assertEqual((event["step"], event["tokens"]), (expected["step"], expected["tokens"]))
            self.assertAlmostEqual(event["loss"] / expected["loss"], 1, delta=1e-4)

    def test_is_the_run_of_one_process(self):
        run = self.launch_config("run")
        one = self.launch_config("one", *ALONE)
        self.assertEqual(run.last_step(), STEPS)
        self.assertEqual(run.metrics()[-1]["tokens"], STEPS * GLOBAL_BATCH * SEQ_LENGTH)
        self.assert_close(run, one)
        self.assertLess(run.losses()[STEPS], run.losses()[1] - 0.1)
        self.assert_verified(run)
        self.check_communication(run)

    def check_communication(self, run):
        """A block of keys and values goes around forward and backward, its gradients go home."""
        micro_batches = STEPS * GLOBAL_BATCH // MICRO_BATCH
        evaluated = 2 * 2 * GLOBAL_BATCH // MICRO_BATCH  # two evaluations of two batches
        tokens = MICRO_BATCH * SEQ_LENGTH // SP
        block = 2 * KV_HEADS // TP * HEAD_DIM * tokens * 4
        hops = micro_batches * (2 * (SP - 1) + SP) + evaluated * (SP - 1)
        totals = run.events("comm_totals")
        for rank in range(SP * TP):
            found = {t["op"]: t["bytes"] for t in totals if t["rank"] == rank and t["axis"] == "sp"}
            self.assertEqual(found, {"send_recv": hops * LAYERS * block, "all_reduce": STEPS * PARAMETERS * 4})

    def test_activations_fall_with_the_number_of_ranks(self):
        peaks = {}
        for sp in (1, 4):
            run = self.launch_config(f"sp-{sp}", f"parallelism={{sp: {sp}, tp: 1}}", "data.seq_length=1024",
                                     "batch={micro_batch_size: 1, global_batch_size: 1}",
                                     "train={duration: 2 steps, eval_interval: 0}",
                                     "lr_schedule.warmup=0")
            peaks[sp] = max(r["activations_peak"] for r in run.events("memory"))
        self.assertLess(peaks[4], 0.4 * peaks[1])

    def test_every_method_is_the_same_run_and_resumes_from_any_other(self):
        one = self.launch_config("one", *ALONE)
        for name, first, then in (("ulysses-one", "{sp: 4, tp: 1, sp_method: ulysses}", "{sp: 1, tp: 1}"),
                                  ("gather-ring", "{sp: 2, tp: 2, sp_method: allgather}", "{sp: 4, tp: 1}")):
            with self.subTest(name):
                running, run = self.start_launch(name, f"parallelism={first}",
                                                 "faults=[{kind: sleep, ms: 100, each: step}]", config=CONFIG)
                self.wait_for_step(run, 7, running)
                running.signal(15)
                self.assertEqual(running.finish().code, 75)
                self.resume(run, f"parallelism={then}", "faults=[]")
                self.assert_close(run, one)

    def test_kill_9_in_the_middle_equals_the_undisturbed_run(self):
        undisturbed = self.launch_config("undisturbed")
        for rank, point in ((1, "forward"), (2, "backward")):
            with self.subTest(rank=rank):
                fault = f"faults=[{{kind: kill, rank: {rank}, step: {6 + 3 * rank}, point: {point}}}]"
                run = self.launch_config(f"killed-{rank}", fault)
                self.assert_identical(run, undisturbed)
                self.assertEqual(run.losses(), undisturbed.losses())


if __name__ == "__main__":
    main.run()
