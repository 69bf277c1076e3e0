#include <string>
#include <variant>

#include "llmtrain/core/exit_code.hpp"

#include "tests/support/catch.hpp"
#include "tests/train/job_harness.hpp"
#include "tests/train/tiny_job.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

JobResult run(const std::string& dir, std::vector<std::string> overrides) {
  overrides.push_back("parallelism.dp=2");
  return run_job({.yaml = kTinyJob,
                  .overrides = std::move(overrides),
                  .processes = 2,
                  .run_dir = dir,
                  .resume_path = {}});
}

}  // namespace

// Case K2: one rank sees a NaN; the decision is everybody's.
TEST_CASE("skip: a NaN on one rank skips the step on all ranks, once", "[train][ranks]") {
  const TempDir dir;
  const JobResult result = run(dir.path(), {"faults=[{kind: nan, rank: 1, step: 3, point: backward}]"});

  for (const int code : result.codes) REQUIRE(code == 0);
  REQUIRE(result.steps.size() == 10);
  CHECK(result.steps[1].skipped == 0);
  CHECK(result.steps[2].skipped == 1);
  CHECK_FALSE(result.steps[2].loss);
  CHECK(result.steps[9].skipped == 1);
  CHECK(result.steps[3].loss);
  CHECK(result.steps[9].tokens == 10 * 16 * 16);
}

TEST_CASE("skip: too many in a row end the run as diverged", "[train][ranks]") {
  const TempDir dir;
  const JobResult result =
      run(dir.path(),
          {"faults=[{kind: nan, rank: 0, each: step, point: backward}]", "resilience.max_skipped_steps=3"});

  for (const int code : result.codes) CHECK(code == to_int(ExitCode::kDiverged));
  CHECK(result.steps.size() == 3);
}

TEST_CASE("skip: a skipped step leaves weights and moments as they were", "[train][ranks]") {
  const TempDir dir;
  run(dir.path(), {"faults=[{kind: nan, rank: 1, step: 3, point: backward}]", "checkpoint.interval=1 steps"});
  CHECK(largest_difference(
            read_tensors(step_dir(dir.path(), 2)), read_tensors(step_dir(dir.path(), 3)), 1e-30) == 0);
  CHECK(largest_difference(
            read_tensors(step_dir(dir.path(), 3)), read_tensors(step_dir(dir.path(), 4)), 1e-30) > 0);
}
