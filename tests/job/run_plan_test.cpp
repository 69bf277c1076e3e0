#include "llmtrain/job/run_plan.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/job/run_dir.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Unit = Quantity::Unit;

TEST_CASE("run plan: amounts become steps, rounded up", "[job]") {
  CHECK(steps_of(steps(7), 100, 10, 0) == 7);
  CHECK(steps_of({1000, Unit::kTokens}, 100, 10, 0) == 10);
  CHECK(steps_of({1001, Unit::kTokens}, 100, 10, 0) == 11);
  CHECK(steps_of({95, Unit::kSamples}, 100, 10, 0) == 10);
  CHECK(steps_of({10, Unit::kPercent}, 100, 10, 2000) == 200);
  CHECK(steps_of({0, Unit::kPercent}, 100, 10, 2000) == 0);
  for (int percent = 1; percent <= 100; ++percent)
    CHECK(steps_of({static_cast<double>(percent), Unit::kPercent}, 1, 1, 100'000) == percent * 1000);
}

TEST_CASE("run plan: a resolved job in numbers", "[job]") {
  const JobReport report = test::check(test::kMinimal,
                                       {"parallelism.dp=2",
                                        "batch={micro_batch_size: 2, global_batch_size: 16}",
                                        "data.valid=synthetic",
                                        "train.duration=12800 tokens",
                                        "train.eval_interval=10%",
                                        "lr_schedule={style: wsd, warmup: 1280 tokens, decay: 20%}",
                                        "checkpoint={interval: 160 samples, keep_every: 50}"});
  INFO(test::messages_of(report));
  REQUIRE(report.job);
  const RunPlan plan = plan_run(report.job->spec);
  CHECK(plan.mesh == MeshShape{.pp = 1, .dp = 2, .sp = 1, .tp = 1});
  CHECK(plan.world_size == 2);
  CHECK(plan.accumulation == 4);
  CHECK(plan.tokens_per_step == 128);
  CHECK(plan.total_steps == 100);
  CHECK(plan.warmup_steps == 10);
  CHECK(plan.decay_steps == 20);
  CHECK(plan.eval_interval == 10);
  CHECK(plan.checkpoint_interval == 10);
  CHECK(plan.keep_every == 50);
}

TEST_CASE("run plan: an unresolved spec is a bug of ours", "[job]") {
  CHECK_THROWS_AS(plan_run(JobSpec{}), CheckFailure);
}

TEST_CASE("run dir: the contract of paths", "[job]") {
  const RunDir dir("/r u n");
  CHECK(dir.source_spec() == "/r u n/spec.source.yaml");
  CHECK(dir.resolved_spec() == "/r u n/spec.yaml");
  CHECK(dir.resolved_spec(3) == "/r u n/spec-3.yaml");
  CHECK(dir.checkpoint(500) == "/r u n/checkpoints/step-00000500");
  CHECK(dir.checkpoint(123456789) == "/r u n/checkpoints/step-123456789");
  CHECK(dir.rank_stdout(2, 0, 7) == "/r u n/logs/2/node0/rank7.out");
  CHECK(dir.rank_stderr(2, 0, 7) == "/r u n/logs/2/node0/rank7.err");
  CHECK(dir.incident(4) == "/r u n/incidents/incident-4.json");
  CHECK(dir.token() == "/r u n/control/token");
  CHECK(dir.metrics() == "/r u n/metrics.jsonl");
  CHECK(dir.events() == "/r u n/events.jsonl");
}

TEST_CASE("run plan: of MIN:MAX a job is cut for the fewest nodes, an elastic one for the most", "[job]") {
  const auto planned = [](const char* elastic) {
    const JobReport report = test::check(
        test::kMinimal,
        {"launch={nodes: '1:3', procs_per_node: 2}", std::string("resilience.elastic=") + elastic});
    REQUIRE(report.job.has_value());
    return plan_run(report.job->spec);
  };
  CHECK(planned("false").nodes == 1);
  CHECK(planned("false").world_size == 2);
  CHECK(planned("true").nodes == 3);
  CHECK(planned("true").world_size == 6);
}
