#include "llmtrain/job/pipeline_plan.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/schedule/csv.hpp"
#include "llmtrain/schedule/generate.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;
using test::check;
using test::messages_of;

namespace {

using Ranges = std::vector<SegmentRange>;
using Layers = std::vector<std::int64_t>;

constexpr const char* kEight =
    "version: 1\n"
    "model: {vocab_size: 32, hidden_size: 16, num_layers: 8, num_heads: 4}\n"
    "data: {seq_length: 8, train: [{path: synthetic}]}\n"
    "batch: {micro_batch_size: 2, gradient_accumulation_steps: 4}\n"
    "train: {duration: 100 steps}\n";

// Both as a job has it, and as a worker reads it.
JobSpec resolved(const std::vector<std::string>& overrides) {
  const JobReport report = check(kEight, overrides);
  INFO(messages_of(report));
  REQUIRE(report.job);
  auto read = parse_resolved(report.job->resolved_yaml, "resolved");
  REQUIRE(read);
  return *read;
}

PipelinePlan plan(const std::vector<std::string>& overrides) {
  auto plan = plan_pipeline(resolved(overrides));
  REQUIRE(plan);
  return *plan;
}

}  // namespace

TEST_CASE("pipeline plan: without a pipeline one stage does all, one micro-batch after the other", "[job]") {
  const PipelinePlan found = plan({});
  CHECK(found.segments == Ranges{{0, 10}});
  CHECK(to_csv(found.schedule) == "0F0,0B0,0F1,0B1,0F2,0B2,0F3,0B3\n");
  CHECK(to_csv(plan({"parallelism.schedule=zbv"}).schedule) == to_csv(found.schedule));
}

TEST_CASE("pipeline plan: a generated schedule and balanced layers", "[job]") {
  const PipelinePlan found = plan({"parallelism.pp=4"});
  CHECK(found.schedule.name == "1f1b");
  CHECK(found.schedule.num_micro_batches == 4);
  CHECK(found.segments == Ranges{{0, 3}, {3, 5}, {5, 7}, {7, 10}});

  const PipelinePlan vee = plan({"parallelism={pp: 2, schedule: zbv}"});
  CHECK(vee.schedule.map.site(3) == Site{0, 1});
  CHECK(vee.segments == Ranges{{0, 3}, {3, 5}, {5, 7}, {7, 10}});
}

TEST_CASE("pipeline plan: what is auto is resolved to numbers", "[job]") {
  const auto numbers = [](const char* parallelism) {
    const ParallelismSpec p = resolved({std::string("parallelism=") + parallelism}).parallelism;
    return std::pair(p.virtual_stages.value(), p.stage_layers.value());
  };
  CHECK(numbers("{}") == std::pair(1, Layers{8}));
  CHECK(numbers("{pp: 2}") == std::pair(1, Layers{4, 4}));
  CHECK(numbers("{pp: 2, schedule: interleaved}") == std::pair(2, Layers{2, 2, 2, 2}));
  CHECK(numbers("{pp: 2, schedule: interleaved, virtual_stages: 3}") ==
        std::pair(3, Layers{1, 1, 1, 2, 2, 1}));
  CHECK(numbers("{pp: 2, stage_layers: [5, 3]}") == std::pair(1, Layers{5, 3}));
}

TEST_CASE("pipeline plan: the text of a schedule file is part of the job", "[job]") {
  const test::ScratchDir scratch;
  const auto schedule = generate({"zb-h1", 2, 4, {}});
  REQUIRE(schedule);
  const std::string file = scratch.write("mine.csv", " " + to_csv(*schedule) + "\n\n");
  const JobSpec spec = resolved({"parallelism={pp: 2, schedule: '" + file + "'}"});
  std::filesystem::remove(file);
  CHECK(spec.parallelism.schedule == to_csv(*schedule));
  const auto found = plan_pipeline(spec);
  REQUIRE(found);
  CHECK(to_csv(found->schedule) == to_csv(*schedule));
}

TEST_CASE("pipeline plan: a schedule file that is wrong is refused by its name and cell", "[job]") {
  const test::ScratchDir scratch;
  const auto refusal = [&](const std::string& text) {
    const std::string file = scratch.write("mine.csv", text);
    return messages_of(check(kEight, {"parallelism={pp: 2, schedule: '" + file + "'}"}));
  };
  const std::string second = "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n";
  CHECK_THAT(refusal("0F0,0F1,0F2,0F3,0B0,0B1,0B2\n" + second),
             Contains("parallelism.schedule: ") && Contains("mine.csv: row 1, column 4 (0F3): its backward"));
  CHECK_THAT(refusal("0F0,,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
             Contains("mine.csv: deadlock: row 1, column 3 (0B0) waits for 1B0"));
  CHECK_THAT(
      refusal("0F0,0B0\n1F0,1B0\n"),
      Contains("mine.csv is a schedule for 1 micro-batches, but batch.gradient_accumulation_steps is 4"));
  CHECK_THAT(refusal("hello\n"), Contains("mine.csv: no schedule in it"));
}

TEST_CASE("pipeline plan: a file may arrange virtual stages as it likes", "[job]") {
  const auto schedule = generate({"zbv", 2, 4, {}});
  REQUIRE(schedule);
  const test::ScratchDir scratch;
  const std::string file = scratch.write("vee.csv", to_csv(*schedule));
  const PipelinePlan found = plan({"parallelism={pp: 2, schedule: '" + file + "'}"});
  CHECK(found.schedule.map.site(3) == Site{0, 1});
  CHECK(found.segments.size() == 4);
}

TEST_CASE("pipeline plan: a spec from before there were pipelines still has one", "[job]") {
  JobSpec spec = resolved({});
  spec.parallelism.virtual_stages.reset();
  spec.parallelism.stage_layers.reset();
  const auto found = plan_pipeline(spec);
  REQUIRE(found);
  CHECK(found->segments == Ranges{{0, 10}});
}

TEST_CASE("pipeline plan: a spec that breaks a rule is an error, not a wrong plan", "[job]") {
  JobSpec spec = resolved({"parallelism.pp=4"});
  spec.parallelism.stage_layers = Layers{4, 4};
  CHECK_FALSE(plan_pipeline(spec));
  spec.parallelism.stage_layers = Layers{2, 2, 2, 1};
  CHECK_FALSE(plan_pipeline(spec));
  spec.parallelism.schedule = "2f2b";
  CHECK_FALSE(plan_pipeline(spec));
}
