#include "llmtrain/sizing/pipeline_traffic.hpp"

#include "llmtrain/schedule/generate.hpp"
#include "llmtrain/sizing/rank_costs.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

Schedule schedule(const char* name, int pp, int micro_batches) {
  const auto found = generate({name, pp, micro_batches, {}});
  REQUIRE(found);
  return *found;
}

// Eight layers on two tp ranks, resolved; four micro-batches of two sequences of 16 tokens.
JobSpec job() {
  JobSpec spec;
  ModelSpec& m = spec.model;
  m.vocab_size = 64;
  m.hidden_size = 32;
  m.num_layers = 8;
  m.num_heads = 4;
  m.num_kv_heads = 2;
  m.head_dim = 8;
  m.ffn_hidden_size = 64;
  m.max_position = 16;
  spec.data.seq_length = 16;
  spec.parallelism.tp = 2;
  spec.parallelism.dp = 2;
  spec.batch.micro_batch_size = 2;
  spec.batch.gradient_accumulation_steps = 4;
  return spec;
}

std::vector<RankCosts> stages(JobSpec spec, const char* name, int pp) {
  spec.parallelism.pp = pp;
  const Schedule program = schedule(name, pp, 4);
  const auto segments =
      stage_segments(balanced_layers(spec.model, spec.data.seq_length, program.map.num_virtual_stages()));
  std::vector<RankCosts> costs;
  for (int stage = 0; stage < pp; ++stage) costs.push_back(rank_costs(spec, program, segments, stage));
  return costs;
}

}  // namespace

TEST_CASE("pipeline traffic: hidden states cross forward, their gradients back", "[sizing]") {
  const PipelinePass pass{.compute = DType::kBf16, .tokens = 10, .width = 32};
  const Traffic four{4, 4 * 10 * 32 * 2}, arrived{4, 0};
  const Schedule plain = schedule("1f1b", 3, 4);
  CHECK(pipeline_traffic(plain, 0, pass) == PipelineTraffic{four, {}, {}, arrived});
  CHECK(pipeline_traffic(plain, 1, pass) == PipelineTraffic{four, four, arrived, arrived});
  CHECK(pipeline_traffic(plain, 2, pass) == PipelineTraffic{{}, four, arrived, {}});
  CHECK(pipeline_traffic(schedule("zb-h1", 3, 4), 1, pass) == pipeline_traffic(plain, 1, pass));
}

TEST_CASE("pipeline traffic: what stays on a stage is not sent", "[sizing]") {
  const PipelinePass pass{.tokens = 1, .width = 1};
  // Down two stages and back up: 0 to 1 and 2 to 3 cross, 1 to 2 does not.
  const PipelineTraffic ends = pipeline_traffic(schedule("zbv", 2, 4), 0, pass);
  CHECK(ends.sent_activations == Traffic{4, 4 * 4});
  CHECK(ends.received_activations == Traffic{4, 0});
  // Round twice: 0 to 1, 1 to 2 (back to the first stage), 2 to 3.
  const Schedule round = schedule("interleaved", 2, 4);
  CHECK(pipeline_traffic(round, 0, pass).sent_activations.calls == 8);
  CHECK(pipeline_traffic(round, 1, pass).sent_activations.calls == 4);
  CHECK(pipeline_traffic(schedule("1f1b", 1, 4), 0, pass) == PipelineTraffic{});
}

TEST_CASE("rank costs: stages hold and send the whole model together, and nothing twice", "[sizing]") {
  const char* name = GENERATE("1f1b", "interleaved", "zbv");
  JobSpec spec = job();
  spec.parallelism.tp_shard_sequence = GENERATE(false, true);
  spec.parallelism.zero_stage = GENERATE(0, 1, 2);
  const RankCosts whole = stages(spec, "1f1b", 1).front();
  RankCosts sum;
  for (const RankCosts& stage : stages(spec, name, 2)) {
    sum.layers += stage.layers;
    sum.memory.params += stage.memory.params;
    sum.memory.optimizer += stage.memory.optimizer;
    sum.gradient.reduce_scatter.bytes += stage.gradient.reduce_scatter.bytes;
    if (spec.parallelism.zero_stage == 0) sum.gradient.all_reduce.calls += stage.gradient.all_reduce.calls;
    sum.tensor += stage.tensor;
    CHECK(stage.tied == Traffic{});
  }
  CHECK(sum.layers == 8);
  CHECK(sum.memory.params == whole.memory.params);
  CHECK(sum.memory.optimizer == whole.memory.optimizer);
  CHECK(sum.gradient.reduce_scatter.bytes == whole.gradient.reduce_scatter.bytes);
  if (spec.parallelism.zero_stage == 0)
    CHECK(sum.gradient.all_reduce.calls == whole.gradient.all_reduce.calls);
  CHECK(sum.tensor == whole.tensor);
}

TEST_CASE("rank costs: a tied head on another stage holds a copy of the embedding", "[sizing]") {
  JobSpec spec = job();
  spec.model.tie_embeddings = true;
  const std::int64_t embedding = 64 / 2 * 32;  // elements of a tp rank
  const RankCosts whole = stages(spec, "1f1b", 1).front();
  CHECK(whole.tied == Traffic{});
  const auto two = stages(spec, "1f1b", 2);
  CHECK(two[0].memory.params + two[1].memory.params == whole.memory.params + embedding * 4);
  CHECK(two[0].tied == Traffic{1, embedding * 4});
  CHECK(two[1].tied == two[0].tied);
  CHECK(stages(spec, "1f1b", 4)[1].tied == Traffic{});
  spec.parallelism.zero_stage = 1;  // half of it on each of two ranks
  CHECK(stages(spec, "1f1b", 2)[1].tied == Traffic{1, embedding / 2 * 4});
  // Down and back up, one stage holds both ends.
  spec.parallelism.zero_stage = 0;
  const auto vee = stages(spec, "zbv", 2);
  CHECK(vee[0].tied == Traffic{});
  CHECK(vee[0].memory.params + vee[1].memory.params == whole.memory.params);
}

TEST_CASE("rank costs: messages are what a rank has of the tokens", "[sizing]") {
  JobSpec spec = job();
  const auto bytes = [&] { return stages(spec, "1f1b", 2)[0].pipeline.sent_activations.bytes; };
  CHECK(bytes() == 4 * (2 * 16 * 32) * 4);
  spec.parallelism.tp_shard_sequence = true;
  CHECK(bytes() == 4 * (2 * 16 * 32) * 4 / 2);
  spec.parallelism.sp = 2;
  CHECK(bytes() == 4 * (2 * 16 * 32) * 4 / 4);
}

TEST_CASE("rank costs: what a stage keeps follows from the schedule", "[sizing]") {
  CHECK(stages(job(), "1f1b", 2)[0].kept.peak == 2);
  CHECK(stages(job(), "1f1b", 2)[1].kept.peak == 1);
  CHECK(stages(job(), "gpipe", 2)[1].kept.peak == 4);
}
