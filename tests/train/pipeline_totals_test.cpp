// What the ranks of a pipeline say that they sent and held, against closed forms: stages that only pretend to
// have a part of the model are found out.
#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/sizing/rank_costs.hpp"

#include "tests/train/totals.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

JobSpec resolved(const Layout& layout, std::vector<std::string> overrides) {
  const TempDir dir;
  const std::string file = dir.path() + "/job.yaml";
  std::ofstream(file) << kTinyJob;
  for (std::string& override : overrides_of(layout)) overrides.push_back(std::move(override));
  auto job = load_job({.files = {file}, .overrides = overrides});
  REQUIRE(job);
  return job->spec;
}

// Of the first rank of every stage.
void check_totals(const Layout& layout, const std::vector<std::string>& overrides) {
  const JobSpec spec = resolved(layout, overrides);
  const auto plan = plan_pipeline(spec);
  REQUIRE(plan);
  const Outcome outcome = train(layout, overrides);
  for (int stage = 0; stage < layout.pp; ++stage) {
    CAPTURE(stage);
    const int rank = stage * layout.dp * layout.sp * layout.tp;
    const RankCosts costs = rank_costs(spec, plan->schedule, plan->segments, stage);
    const auto total = [&](const char* axis, const char* op) { return total_of(outcome, rank, axis, op); };
    CHECK(memory_of(outcome, rank) == costs.memory);
    CHECK(total("pp", "send") == times(kSteps, costs.pipeline.sent_activations));
    CHECK(total("pp", "recv") == times(kSteps, costs.pipeline.received_activations));
    CHECK(total("pp_grad", "send") == times(kSteps, costs.pipeline.sent_gradients));
    CHECK(total("pp_grad", "recv") == times(kSteps, costs.pipeline.received_gradients));
    CHECK(total("embedding", "all_reduce") == times(kSteps, costs.tied));
    CHECK(total("tp", "reduce_scatter") == times(kSteps, costs.tensor.reduce_scatter));
    CHECK(total("tp", "all_gather") == times(kSteps, costs.tensor.all_gather));
    CHECK(total("sp", "send_recv") == times(kSteps, costs.sequence.send_recv));
    if (layout.sp > 1) continue;  // the gradient group is another axis then
    CHECK(total("dp", "all_reduce") == times(kSteps, costs.gradient.all_reduce));
    CHECK(total("dp", "reduce_scatter") == times(kSteps, costs.gradient.reduce_scatter));
    // Weights that stay whole are gathered once more, when they have been initialised.
    if (layout.zero == 3) CHECK(total("dp", "all_gather") == times(kSteps, costs.gradient.all_gather));
    if (layout.zero == 1) CHECK(total("dp", "all_gather") == times(kSteps + 1, costs.gradient.all_gather));
  }
}

}  // namespace

TEST_CASE("pipeline: bytes sent and held are the closed forms of every schedule", "[train][ranks]") {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv"})
    for (const int zero : {0, 1, 3}) {
      CAPTURE(schedule, zero);
      check_totals({.dp = 2, .accumulation = 4, .zero = zero, .pp = 2, .schedule = schedule},
                   {"model.num_layers=6"});
    }
}

TEST_CASE("pipeline: bytes sent and held by what a job trades", "[train][ranks]") {
  const Layout zero3{.dp = 2, .accumulation = 4, .zero = 3, .pp = 2, .schedule = "gpipe"};
  const Layout plain{.dp = 2, .accumulation = 4, .pp = 2};
  const Layout tensor{.accumulation = 4, .tp = 2, .shard_sequence = true, .pp = 2, .schedule = "interleaved"};
  check_totals(zero3, {"model.num_layers=6", "parallelism.reshard_after_forward=false"});
  check_totals(plain, {"model.num_layers=6", "parallelism.bucket_size=1000"});
  check_totals(
      plain, {"model.num_layers=6", "precision={compute: bf16, reduce: bf16}", "parallelism.overlap=false"});
  check_totals(tensor, {"model.num_layers=8", "memory={recompute: full, recompute_layers: 1}"});
}

TEST_CASE("pipeline: bytes sent and held with tied embeddings, tensor and sequence parallelism",
          "[train][ranks]") {
  for (const char* compute : {"precision.compute=fp64", "precision.compute=bf16"}) {
    const std::vector<std::string> tied = {
        compute, "model.num_layers=4", "model={family: qwen2, tie_embeddings: true}"};
    for (const char* schedule : {"1f1b", "zbv"}) {
      CAPTURE(compute, schedule);
      check_totals({.dp = 2, .accumulation = 4, .zero = 1, .pp = 2, .schedule = schedule}, tied);
      check_totals({.accumulation = 4, .tp = 2, .shard_sequence = true, .pp = 2, .schedule = schedule}, tied);
      check_totals({.accumulation = 2, .sp = 2, .pp = 2, .schedule = schedule}, tied);
    }
  }
}
