#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/job/run_plan.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;
using test::messages_of;

namespace {

// A run directory as a launch of two ranks leaves it.
class UsedRun {
 public:
  UsedRun() {
    const JobReport report =
        test::check(test::kMinimal,
                    {"parallelism.dp=2", "batch.gradient_accumulation_steps=3", "run.name='${env:N}'"},
                    source());
    REQUIRE(report.job);
    scratch_.write("spec.source.yaml", report.job->source_yaml);
    scratch_.write("spec.yaml", report.job->resolved_yaml);
    resolved = report.job->resolved_yaml;
  }
  static JobSource source() {
    JobSource from;
    from.env = {{"N", "ada"}};
    return from;
  }
  JobReport resume(std::vector<std::string> overrides = {}, std::optional<int> procs = {}) const {
    JobSource from = source();
    from.overrides = std::move(overrides);
    from.procs_per_node = procs;
    return check_resumed_job(dir(), from);
  }
  std::string dir() const { return scratch_.path().string(); }

  std::string resolved;

 private:
  test::ScratchDir scratch_;
};

}  // namespace

TEST_CASE("resume: without a word it is the same job in that directory", "[job]") {
  const UsedRun run;
  const JobReport report = run.resume();
  INFO(messages_of(report));
  REQUIRE(report.job);
  CHECK(report.job->spec.run.dir == run.dir());
  CHECK(report.job->spec.run.name == "ada");
  CHECK(plan_run(report.job->spec) == plan_run(*parse_resolved(run.resolved, "before")));
  CHECK(is_run_dir(run.dir()));
}

TEST_CASE("resume: another layout keeps the global batch", "[job]") {
  const UsedRun run;  // 2 ranks x micro 2 x accumulation 3 = 12
  const auto plan = [&run](std::vector<std::string> overrides, std::optional<int> procs = {}) {
    const JobReport report = run.resume(std::move(overrides), procs);
    INFO(messages_of(report));
    REQUIRE(report.job);
    return plan_run(report.job->spec);
  };
  CHECK(plan({"parallelism.dp=1"}).accumulation == 6);
  CHECK(plan({"parallelism.dp=3"}).accumulation == 2);
  CHECK(plan({}, 6).mesh.dp == 6);
  CHECK(plan({}, 6).global_batch_size == 12);
  CHECK(plan({"launch.procs_per_node=3"}).accumulation == 2);
  CHECK(plan({"batch.micro_batch_size=4", "parallelism.dp=3"}).accumulation == 1);
  CHECK(plan({"train.duration=500"}).total_steps == 500);
  CHECK(plan({"train.duration=500"}).mesh.dp == 2);
}

TEST_CASE("resume: another pipeline deals layers out anew, unless the command does", "[job]") {
  const test::ScratchDir scratch;
  const JobReport report = test::check(
      test::kMinimal,
      {"model.num_layers=4", "parallelism={pp: 2, stage_layers: [1, 3]}", "batch.micro_batch_size=1"});
  REQUIRE(report.job);
  scratch.write("spec.source.yaml", report.job->source_yaml);
  scratch.write("spec.yaml", report.job->resolved_yaml);
  const auto layers = [&](std::vector<std::string> overrides) {
    JobSource from;
    from.overrides = std::move(overrides);
    const JobReport resumed = check_resumed_job(scratch.path().string(), from);
    INFO(messages_of(resumed));
    REQUIRE(resumed.job);
    return resumed.job->spec.parallelism.stage_layers.value();
  };
  using Layers = std::vector<std::int64_t>;
  CHECK(layers({}) == Layers{1, 3});
  CHECK(layers({"parallelism.tp=2"}) == Layers{1, 3});
  CHECK(layers({"parallelism.pp=4"}) == Layers{1, 1, 1, 1});
  CHECK(layers({"parallelism.pp=1"}) == Layers{4});
  CHECK(layers({"parallelism.schedule=zbv"}) == Layers{1, 1, 1, 1});
  CHECK(layers({"parallelism={pp: 3, stage_layers: [2, 1, 1]}"}) == Layers{2, 1, 1});
}

TEST_CASE("resume: what decides the samples may not change", "[job]") {
  const UsedRun run;
  CHECK_THAT(messages_of(run.resume({"run.seed=5"})),
             Contains("run.seed = 5: this run has 1234, which decides its samples"));
  CHECK_THAT(messages_of(run.resume({"batch.global_batch_size=24"})),
             Contains("batch.global_batch_size = 24: this run has 12"));
  CHECK_FALSE(run.resume({"run.seed=5"}).job);
  CHECK_THAT(messages_of(run.resume({"parallelism.dp=5"})),
             Contains("batch.global_batch_size = 12: not a multiple of"));
}

TEST_CASE("resume: a directory without a source spec is named", "[job]") {
  const test::ScratchDir empty;
  CHECK_FALSE(is_run_dir(empty.path()));
  CHECK_FALSE(is_run_dir("/dev/null"));
  CHECK_THAT(messages_of(check_resumed_job(empty.path().string(), {})),
             Contains("spec.source.yaml: cannot be opened"));
}

TEST_CASE("resume: a literal ${ in the directory's name stays literal", "[job]") {
  const test::ScratchDir scratch;
  const JobReport report = test::check(test::kMinimal);
  scratch.write("a ${b}/spec.source.yaml", report.job->source_yaml);
  const std::string dir = (scratch.path() / "a ${b}").string();
  const JobReport resumed = check_resumed_job(dir, {});
  INFO(messages_of(resumed));
  REQUIRE(resumed.job);
  CHECK(resumed.job->spec.run.dir == dir);
}
