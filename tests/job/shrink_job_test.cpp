#include "llmtrain/job/shrink_job.hpp"

#include <fmt/format.h>

#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/spec/write.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

JobSpec load(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  const JobReport report = test::check(yaml, overrides);
  INFO(test::messages_of(report));
  REQUIRE(report.job);
  return report.job->spec;
}

// What is run must be a job like any other.
void check_valid(const JobSpec& spec) {
  const std::string yaml = to_yaml(to_tree(spec));
  const JobReport report = check_job_text(yaml, "shrunk", {});
  INFO(yaml << test::messages_of(report));
  REQUIRE(report.job);
  CHECK(parse_resolved(yaml, "shrunk"));
}

JobSpec shrunk(const JobSpec& spec, int max_ranks = kProofRanks) {
  const auto small = shrink_job(spec, max_ranks);
  REQUIRE(small);
  check_valid(*small);
  return *small;
}

constexpr const char* kLlama8b =
    "version: 1\n"
    "run: {device: cpu}\n"
    "model: {preset: llama3-8b}\n"
    "data: {seq_length: 8192, train: [{path: /nowhere/web}], valid: [{path: /nowhere/valid}]}\n"
    "parallelism: {tp: 4, dp: 2, tp_shard_sequence: true}\n"
    "batch: {micro_batch_size: 4, gradient_accumulation_steps: 8}\n"
    "precision: {compute: bf16}\n"
    "lr_schedule: {style: wsd, warmup: 200 steps, decay: 20%}\n"
    "train: {duration: 1B tokens, eval_interval: 50 steps}\n"
    "faults: [{kind: kill, rank: 1, step: 2}]\n";

}  // namespace

TEST_CASE("shrink: a mesh that fits stays as it is", "[job]") {
  const MeshShape mesh{.pp = 1, .dp = 16, .sp = 1, .tp = 4};
  CHECK(*shrink_mesh(mesh, 64) == mesh);
}

TEST_CASE("shrink: axes shrink in the order dp, pp, sp, tp, and only as far as they must", "[job]") {
  const MeshShape mesh{.pp = 8, .dp = 16, .sp = 4, .tp = 8};
  CHECK(*shrink_mesh(mesh, 4095) == MeshShape{.pp = 8, .dp = 2, .sp = 4, .tp = 8});
  CHECK(*shrink_mesh(mesh, 511) == MeshShape{.pp = 4, .dp = 2, .sp = 4, .tp = 8});
  CHECK(*shrink_mesh(mesh, 255) == MeshShape{.pp = 4, .dp = 2, .sp = 2, .tp = 8});
  CHECK(*shrink_mesh(mesh, 64) == MeshShape{.pp = 4, .dp = 2, .sp = 2, .tp = 4});
}

TEST_CASE("shrink: hybrid shards keep several copies of several parts", "[job]") {
  CHECK(*shrink_mesh({.dp = 64, .tp = 4}, 16, 4) == MeshShape{.dp = 4, .tp = 4});
}

TEST_CASE("shrink: an axis above one never becomes one, and one below its goal stays", "[job]") {
  CHECK(*shrink_mesh({.pp = 2, .dp = 64, .sp = 1, .tp = 8}, 64) ==
        MeshShape{.pp = 2, .dp = 2, .sp = 1, .tp = 8});
  const auto refused = shrink_mesh({.pp = 4, .dp = 2, .sp = 2, .tp = 4}, 63);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kPreflight);
  CHECK(refused.error().message.find("64 ranks") != std::string::npos);
}

TEST_CASE("shrink: a large job becomes a small one of its kind", "[job]") {
  const JobSpec spec = load(kLlama8b);
  const JobSpec small = shrunk(spec);
  CHECK(small.model.hidden_size == 128);
  CHECK(small.model.num_layers == 2);
  CHECK(small.model.num_kv_heads.value() == 8);  // two for each rank, as before
  CHECK(small.model.num_heads == 16);            // still grouped
  CHECK(small.model.vocab_size % 4 == 0);
  CHECK(small.data.seq_length == 16);
  CHECK(small.parallelism.tp_shard_sequence);
  CHECK(*small.batch.global_batch_size == 2 * 2 * 2);
  CHECK(small.precision.compute == DType::kFp64);
  CHECK(small.data.train.size() == 1);
  CHECK(small.data.train[0].path == "synthetic");
  CHECK(small.data.valid.empty());
  CHECK(small.faults.empty());
  CHECK(plan_run(small).total_steps == kProofSteps);
  CHECK(plan_run(small).world_size == 8);
}

TEST_CASE("shrink: a pipeline keeps its schedule, its virtual stages and the kind of its numbers", "[job]") {
  const auto small = [](const char* parallelism, int accumulation, int max_ranks = kProofRanks) {
    return shrunk(
        load(kLlama8b,
             {"parallelism={tp: 1, dp: 1, tp_shard_sequence: false}",
              std::string("parallelism=") + parallelism,
              fmt::format("batch={{micro_batch_size: 1, gradient_accumulation_steps: {}}}", accumulation)}),
        max_ranks);
  };
  using Layers = std::vector<std::int64_t>;
  const auto layers = [](const JobSpec& spec) { return spec.parallelism.stage_layers.value(); };
  const auto micro_batches = [](const JobSpec& spec) {
    return spec.batch.gradient_accumulation_steps.value();
  };

  const JobSpec even = small("{pp: 4, stage_layers: [8, 8, 8, 8]}", 32);
  CHECK(layers(even) == Layers{2, 2, 2, 2});
  CHECK(even.model.num_layers == 8);
  CHECK(micro_batches(even) == 8);

  const JobSpec uneven = small("{pp: 4, stage_layers: [9, 9, 8, 6]}", 32);
  CHECK(layers(uneven) == Layers{2, 2, 2, 1});

  const JobSpec interleaved = small("{pp: 8, schedule: interleaved, virtual_stages: 2}", 32, 8);
  CHECK(interleaved.parallelism.pp == 8);
  CHECK(layers(interleaved).size() == 16);
  const JobSpec fewer = small("{pp: 8, schedule: interleaved, virtual_stages: 2}", 32, 4);
  CHECK(fewer.parallelism.pp == 4);
  CHECK(fewer.parallelism.schedule == "interleaved");
  CHECK(layers(fewer).size() == 8);
  CHECK(micro_batches(fewer) == 8);

  const JobSpec ends = small("{pp: 4, schedule: zbv, stage_layers: [0, 6, 6, 6, 6, 4, 4, 0]}", 4);
  CHECK(layers(ends) == Layers{0, 2, 2, 2, 2, 1, 1, 0});

  CHECK(micro_batches(small("{pp: 4}", 3)) == 3);  // fewer than stages
  CHECK(micro_batches(small("{pp: 8}", 6, 4)) == 3);
  CHECK(micro_batches(small("{pp: 8}", 20, 4)) == 9);  // no multiple of them
  CHECK(micro_batches(small("{pp: 5}", 8, 4)) == 7);
}

TEST_CASE("shrink: all layers or some of them are still computed again", "[job]") {
  const auto again = [](const char* layers) {
    const JobSpec small =
        shrunk(load(kLlama8b, {std::string("memory={recompute: full, recompute_layers: ") + layers + "}"}));
    CHECK(small.memory.recompute == Recompute::kFull);
    CHECK(small.model.num_layers == 2);
    return small.memory.recompute_layers;
  };
  CHECK(again("32") == 2);
  CHECK(again("31") == 1);
  CHECK(again("0") == 0);
  CHECK_FALSE(again("auto"));
  // Of each of 16 virtual stages with two layers.
  const auto on_stages = [](const char* layers) {
    return shrunk(load(kLlama8b,
                       {"parallelism={tp: 1, dp: 1, tp_shard_sequence: false, pp: 8, schedule: interleaved}",
                        "model.vocab_size=64",
                        std::string("memory={recompute: full, recompute_layers: ") + layers + "}"}),
                  8)
        .memory.recompute_layers;
  };
  CHECK(on_stages("2") == 2);
  CHECK(on_stages("1") == 1);
}

TEST_CASE("shrink: the text of a schedule stays, and with it the micro-batches", "[job]") {
  const std::string csv =
      "parallelism={tp: 1, tp_shard_sequence: false, dp: 2, pp: 2, schedule: "
      "\"0F0,0F1,0F2,0B0,0B1,0B2\\n1F0,1B0,1F1,1B1,1F2,1B2\"}";
  const JobSpec spec = load(kLlama8b, {csv, "batch={micro_batch_size: 1, gradient_accumulation_steps: 3}"});
  const JobSpec small = shrunk(spec);
  CHECK(small.parallelism.schedule == spec.parallelism.schedule);
  CHECK(*small.batch.gradient_accumulation_steps == 3);
  JobSpec large = spec;
  large.parallelism.pp = 8;
  const auto refused = shrink_job(large, 8);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("for 8 stages cannot be shrunk to 4") != std::string::npos);
}

TEST_CASE("shrink: key/value heads below tp stay shared", "[job]") {
  const auto heads = [](int kv_heads, int tp) {
    const JobSpec small = shrunk(load(kLlama8b,
                                      {fmt::format("model.num_kv_heads={}", kv_heads),
                                       fmt::format("parallelism={{tp: {}, dp: 2}}", tp)}),
                                 8);
    return std::pair(small.parallelism.tp, *small.model.num_kv_heads);
  };
  CHECK(heads(2, 4) == std::pair(4, std::int64_t{2}));
  CHECK(heads(1, 4) == std::pair(4, std::int64_t{1}));
  CHECK(heads(4, 8) == std::pair(4, std::int64_t{2}));  // tp shrinks too
  CHECK(heads(32, 4) == std::pair(4, std::int64_t{8}));
}

TEST_CASE("shrink: what does not divide still does not", "[job]") {
  const JobSpec small = shrunk(load(kLlama8b,
                                    {"model.vocab_size=50257",
                                     "data.seq_length=1001",
                                     "parallelism={tp: 2, dp: 2, tp_shard_sequence: false}"}));
  CHECK(small.model.vocab_size % 2 == 1);
  CHECK(small.data.seq_length % 2 == 1);
}

TEST_CASE("shrink: every family keeps its features on every layout", "[job]") {
  for (const char* model : {"{preset: gpt2-124m}",
                            "{preset: gpt3-175b}",
                            "{preset: llama-1b}",
                            "{preset: llama3-405b}",
                            "{preset: mistral-7b}",
                            "{preset: qwen2-7b}",
                            "{preset: qwen3-0.6b}"})
    for (const char* layout :
         {"{tp: 1, dp: 2}", "{tp: 2, dp: 3}", "{tp: 4, dp: 1, tp_shard_sequence: true}"}) {
      CAPTURE(model, layout);
      const JobSpec spec =
          load(kLlama8b,
               {std::string("model=") + model, std::string("parallelism=") + layout, "data.seq_length=1024"});
      const JobSpec small = shrunk(spec);
      CHECK(small.model.family == spec.model.family);
      CHECK(small.model.tie_embeddings == spec.model.tie_embeddings);
      CHECK(small.model.qkv_bias == spec.model.qkv_bias);
      CHECK(small.model.qk_norm == spec.model.qk_norm);
      CHECK(small.model.position == spec.model.position);
      const auto is_grouped = [](const ModelSpec& m) { return m.num_heads > *m.num_kv_heads; };
      CHECK(is_grouped(small.model) == is_grouped(spec.model));
      const auto is_square = [](const ModelSpec& m) { return m.num_heads * *m.head_dim == m.hidden_size; };
      CHECK(is_square(small.model) == is_square(spec.model));
    }
}

TEST_CASE("shrink: a job that is small already keeps its sizes", "[job]") {
  const JobSpec spec = load(test::kMinimal);
  const JobSpec small = shrunk(spec);
  CHECK(small.model.vocab_size == spec.model.vocab_size);
  CHECK(small.data.seq_length == spec.data.seq_length);
  CHECK(small.model.num_layers == spec.model.num_layers);
}

TEST_CASE("shrink: one rank has the same global batch and no parallelism", "[job]") {
  const JobSpec small = shrunk(load(kLlama8b));
  const JobSpec one = one_rank_job(small);
  check_valid(one);
  CHECK(plan_run(one).world_size == 1);
  CHECK(plan_run(one).global_batch_size == plan_run(small).global_batch_size);
  CHECK_FALSE(one.parallelism.tp_shard_sequence);
}
