#include "llmtrain/job/fit_nodes.hpp"

#include "llmtrain/job/run_plan.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

// An elastic one: it is cut for the most nodes.
JobSpec job(std::vector<std::string> overrides) {
  overrides.emplace_back("resilience.elastic=true");
  const JobReport report = test::check(test::kMinimal, overrides);
  INFO(test::messages_of(report));
  REQUIRE(report.job);
  return report.job->spec;
}

}  // namespace

TEST_CASE("fit nodes: the data-parallel axis follows, and the global batch stays", "[job]") {
  const JobSpec whole =
      job({"launch={nodes: '1:4', procs_per_node: 2}", "parallelism.tp=2", "batch.global_batch_size=24"});
  const RunPlan before = plan_run(whole);
  CHECK(before.world_size == 8);
  for (const int nodes : {1, 2, 3, 4}) {
    const auto fitted = fit_to_nodes(whole, nodes);
    REQUIRE(fitted.ok());
    const RunPlan plan = plan_run(*fitted);
    CHECK(plan.nodes == nodes);
    CHECK(plan.world_size == 2 * nodes);
    CHECK(plan.mesh.dp == nodes);
    CHECK(plan.mesh.tp == 2);
    CHECK(plan.accumulation * nodes == before.accumulation * 4);
    CHECK(plan.tokens_per_step == before.tokens_per_step);
    CHECK(plan.total_steps == before.total_steps);
  }
  CHECK(plan_run(fit_to_nodes(whole, 4).value()) == before);
}

TEST_CASE("fit nodes: shards of a copy follow the ranks that share it", "[job]") {
  const JobSpec whole = job({"launch={nodes: '1:4', procs_per_node: 2}",
                             "parallelism={zero_stage: 3, dp_shard: 4}",
                             "batch.global_batch_size=48"});
  CHECK(fit_to_nodes(whole, 4).value().parallelism.dp_shard == 4);
  CHECK(fit_to_nodes(whole, 3).value().parallelism.dp_shard == 3);  // of six ranks
  CHECK(fit_to_nodes(whole, 1).value().parallelism.dp_shard == 2);
}

TEST_CASE("fit nodes: what cannot be cut says why", "[job]") {
  const JobSpec wide = job({"launch={nodes: '1:2', procs_per_node: 2}", "parallelism.tp=4"});
  CHECK_THAT(fit_to_nodes(wide, 1).error().message,
             Contains("2 ranks are no multiple of pp 1 x sp 1 x tp 4"));
  const JobSpec uneven =
      job({"launch={nodes: '1:4', procs_per_node: 1}", "batch.global_batch_size=8"});  // micro 2
  CHECK_THAT(fit_to_nodes(uneven, 3).error().message, Contains("global_batch_size 8 is no multiple"));
}
