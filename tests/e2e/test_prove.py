"""`llmtrain prove`: a layout is one rank, whatever the job is on."""

import json
import unittest

from tests.e2e.harness import ROOT, SMOKE, E2eTest
from tests.support import main

TP2_DP2 = ROOT / "configs/cpu_tp2_dp2.yaml"
LLAMA_8B = ROOT / "configs/llama3-8b_8gpu.yaml"
QUANTITIES = {"sample_order", "loss", "grad", "grad_norm", "weight", "moment"}
# On configs/cpu_tp2_dp2.yaml.
GPT2 = ("model={family: gpt2, vocab_size: 61, hidden_size: 64, num_layers: 2, num_heads: 8}",)
QWEN3 = ("model={family: qwen3, vocab_size: 512, hidden_size: 64, num_layers: 2, num_heads: 8, num_kv_heads: 2, "
         "head_dim: 16, tie_embeddings: true}", "parallelism={tp: 4, dp: 2, tp_shard_sequence: true}")


class Prove(E2eTest):
    def certificate(self, config, *overrides, code=0):
        found = json.loads(self.expect(code, "prove", config, "--json", *self.sets(*overrides)).out)
        self.assertEqual(found["max_rel_diff"].keys(), QUANTITIES)
        self.assertEqual(found["ok"], code == 0)
        return found

    def assert_equal_to_one_rank(self, found, ranks):
        self.assertEqual(found["ranks"], ranks)
        self.assertEqual(found["steps"], 3)
        self.assertIsNone(found["first_divergence"])
        self.assertEqual(found["max_rel_diff"]["sample_order"], 0)
        for quantity, difference in found["max_rel_diff"].items():
            self.assertLess(difference, 1e-9, quantity)
        self.assertEqual(list(self.folder.glob("run*")), [])

    def test_data_parallel(self):
        found = self.certificate(SMOKE)
        self.assert_equal_to_one_rank(found, 2)
        self.assertIsNone(found["shrunk_from"])
        # Sums were made in another order: had nothing been cut, nothing would differ.
        self.assertGreater(found["max_rel_diff"]["grad"], 0)

    def test_tensor_and_data_parallel(self):
        self.assert_equal_to_one_rank(self.certificate(TP2_DP2), 4)
        self.assert_equal_to_one_rank(self.certificate(TP2_DP2, *GPT2), 4)
        self.assert_equal_to_one_rank(self.certificate(TP2_DP2, *QWEN3), 8)

    def test_sharded_state_and_sequences(self):
        for config in ("cpu_zero3", "cpu_hsdp", "cpu_sp2_tp2_ring"):
            with self.subTest(config):
                self.assert_equal_to_one_rank(self.certificate(ROOT / f"configs/{config}.yaml"), 4)

    def test_a_large_job_for_gpus(self):
        found = self.certificate(LLAMA_8B)
        self.assert_equal_to_one_rank(found, 8)
        self.assertEqual(found["layout"]["tp"], 4)
        self.assertTrue(found["layout"]["tp_shard_sequence"])

    def test_more_ranks_than_a_proof_has_are_shrunk_and_said(self):
        found = self.certificate(LLAMA_8B, "parallelism={tp: 8, dp: 16}", "run.device=cuda",
                                 "batch.global_batch_size=64", "model.num_kv_heads=4")
        self.assert_equal_to_one_rank(found, 16)
        self.assertEqual((found["shrunk_from"]["dp"], found["layout"]["dp"], found["layout"]["tp"]), (16, 2, 8))

    def test_the_certificate_as_text(self):
        text = self.expect(0, "prove", SMOKE).out
        for part in ("dp 2", "sample_order", "equal: this layout computes what one rank computes"):
            self.assertIn(part, text)

    def test_data_files_are_never_opened(self):
        result = self.expect(0, "prove", SMOKE, *self.sets("data.train=[{path: /nowhere/web}]"))
        self.assertIn("/nowhere/web", result.err)

    def test_what_cannot_be_proved(self):
        self.assertIn("parallelism.tp", self.expect(2, "prove", SMOKE, *self.sets("parallelism.tp=3")).err)
        self.assertIn("nowhere.yaml", self.expect(2, "prove", "nowhere.yaml").err)
        self.assertIn("no such file", self.expect(2, "prove", SMOKE, "--engine", "nowhere.so").err)
        self.expect(2, "prove")


if __name__ == "__main__":
    main.run()
