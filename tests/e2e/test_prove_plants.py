"""Every bug that `llmtrain prove --plant` can plant is found, by name of quantity, tensor, step and rank."""

import json
import unittest

from tests.e2e.harness import ROOT, SMOKE, E2eTest
from tests.support import main

CONFIG = ROOT / "configs/cpu_tp2_dp2.yaml"
GPT2 = "model={family: gpt2, vocab_size: 61, hidden_size: 64, num_layers: 2, num_heads: 8}"
FIRST, EMBEDDING = "model.layers.0.", "model.embed_tokens.weight"

# name -> (what the job needs, step, quantity, tensor, rank) of the first divergence
FOUND = {
    "region-sum": ((), 1, "grad", EMBEDDING, 0),
    "row-bias": ((GPT2,), 2, "grad", EMBEDDING, 0),  # biases begin at zero: the first update makes them count
    "position-rows": ((GPT2,), 1, "grad", EMBEDDING, 0),
    "kv-gradients": (("model.num_kv_heads=1",), 1, "grad", FIRST + "self_attn.k_proj.weight", 0),
    "norm-gradients": (("parallelism.tp_shard_sequence=true",), 1, "grad", FIRST + "input_layernorm.weight", 0),
    "norm-replicas": ((), 1, "grad_norm", "grad_norm", 0),
    "norm-local": ((), 1, "grad_norm", "grad_norm", 0),
    "norm-stages": (("parallelism.pp=2",), 1, "grad_norm", "grad_norm", 0),
    "tied-twice": (("model.tie_embeddings=true",), 1, "grad_norm", "grad_norm", 0),
    "tied-stages": (("parallelism.pp=2", "model.tie_embeddings=true"), 1, "grad", EMBEDDING, 0),
    "stage-gradient": (("parallelism.pp=2",), 1, "grad", EMBEDDING, 0),
    "padding-row": ((), 1, "grad", EMBEDDING, 0),
    "last-micro-batch": ((), 1, "grad", EMBEDDING, 0),
    "loss-scale": ((), 1, "grad", EMBEDDING, 0),
    "sequence-loss-scale": (("parallelism.sp=2",), 1, "grad", EMBEDDING, 0),
    "loss-count": ((), 1, "loss", "loss", 0),
    "rope-base": ((), 1, "grad", EMBEDDING, 0),
    "rope-offset": (("parallelism.sp=2",), 1, "grad", EMBEDDING, 0),
    "wrong-sample": ((), 1, "sample_order", "sample_order", 2),  # the first rank of the second dp half
    "stale-weights": ((), 2, "weight", EMBEDDING, 3),
    "stale-gather": (("parallelism.zero_stage=1",), 2, "weight", EMBEDDING, 0),
    "other-init": ((), 1, "grad", EMBEDDING, 0),
}


class Plants(E2eTest):
    def test_each_is_listed(self):
        listed = json.loads(self.expect(0, "prove", "--list-plants", "--json").out)
        self.assertEqual([entry["name"] for entry in listed], list(FOUND))
        lines = self.expect(0, "prove", "--list-plants").out.splitlines()
        self.assertEqual([line.split()[0] for line in lines], list(FOUND))

    def test_each_is_found(self):
        for plant, (overrides, step, quantity, tensor, rank) in FOUND.items():
            with self.subTest(plant=plant):
                result = self.expect(1, "prove", CONFIG, "--plant", plant, "--json", *self.sets(*overrides))
                found = json.loads(result.out)
                self.assertEqual((found["ok"], found["plant"]), (False, plant))
                first = found["first_divergence"]
                self.assertEqual((first["step"], first["quantity"], first["tensor"], first["rank"]),
                                 (step, quantity, tensor, rank))
                self.assertGreater(first["rel_diff"], 1e-9)

    def test_the_same_jobs_pass_without(self):
        for overrides in {overrides for overrides, *_ in FOUND.values()}:
            with self.subTest(overrides=overrides):
                self.expect(0, "prove", CONFIG, *self.sets(*overrides))

    def test_the_text_names_where(self):
        text = self.expect(1, "prove", CONFIG, "--plant", "stale-weights").out
        self.assertIn("planted bug    stale-weights", text)
        self.assertIn(f"first divergence: step 2, rank 3, weight of {EMBEDDING}", text)

    def test_a_job_without_room_gets_what_the_bug_needs_and_says_so(self):
        for plant, room in (("kv-gradients", "model.num_kv_heads=1"), ("row-bias", "parallelism.tp=2"),
                            ("tied-twice", "model.tie_embeddings=true"), ("rope-offset", "parallelism.sp=2")):
            with self.subTest(plant=plant):
                result = self.expect(1, "prove", SMOKE, "--plant", plant)
                self.assertIn(f"the job has no room for {plant}", result.err)
                self.assertIn(f"--set {room}", result.err)
                self.assertIn("first divergence", result.out)

    def test_sharded_weights_that_are_stale_are_found_at_every_stage(self):
        for stage in (1, 2, 3):
            with self.subTest(stage=stage):
                result = self.expect(1, "prove", CONFIG, "--plant", "stale-gather", "--json",
                                     *self.sets(f"parallelism.zero_stage={stage}"))
                self.assertEqual(json.loads(result.out)["first_divergence"]["step"], 3 if stage == 3 else 2)

    def test_an_unknown_one_is_refused_with_those_that_there_are(self):
        result = self.expect(2, "prove", SMOKE, "--plant", "gremlin")
        for part in ("gremlin", *FOUND):
            self.assertIn(part, result.err)


if __name__ == "__main__":
    main.run()
