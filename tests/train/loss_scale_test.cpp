#include <string>
#include <vector>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/worker_exit.hpp"

#include "tests/support/catch.hpp"
#include "tests/train/job_harness.hpp"
#include "tests/train/parity.hpp"
#include "tests/train/tiny_job.hpp"

// Whole runs in fp16: what overflows is skipped by all ranks alike, and the scale finds its place.
using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// A step has 256 tokens: at this scale the gradient of a loss is 2^18, four times beyond fp16.
const std::string kTooLarge =
    "precision={compute: fp16, loss_scale: {initial: 67108864, window: 3, hysteresis: 1}}";

JobOptions job(const TempDir& dir, std::vector<std::string> overrides, int dp) {
  overrides.push_back(fmt::format("parallelism.dp={}", dp));
  return {.yaml = kTinyJob,
          .overrides = std::move(overrides),
          .processes = dp,
          .run_dir = dir.path(),
          .resume_path = {}};
}

std::vector<double> scales_of(const JobResult& result) {
  std::vector<double> scales;
  for (const StepReport& step : result.steps) scales.push_back(step.loss_scale.value_or(0));
  return scales;
}

}  // namespace

TEST_CASE("loss scale: steps that overflow are skipped until the scale fits, and are no divergence",
          "[train][ranks]") {
  for (const char* zero : {"parallelism.zero_stage=0", "parallelism.zero_stage=2"}) {
    const TempDir dir;
    const JobResult result = run_job(job(dir, {kTooLarge, "resilience.max_skipped_steps=1", zero}, 2));
    for (const int code : result.codes) REQUIRE(code == 0);
    REQUIRE(result.steps.size() == 10);
    const std::vector<double> scales = scales_of(result);
    CHECK(scales[0] == 67108864);
    CHECK(scales[1] == scales[0] / 2);
    CHECK(scales[2] == scales[0] / 4);
    std::int64_t overflows = 0;
    for (const StepReport& step : result.steps) overflows += step.grad_norm ? 0 : 1;
    CHECK(overflows >= 2);
    CHECK(result.steps.back().skipped == overflows);
    CHECK(largest_difference(
              read_tensors(step_dir(dir.path(), 0)), read_tensors(step_dir(dir.path(), 10)), 1e-30) > 0);
  }
}

TEST_CASE("loss scale: steps that overflow at the floor end the run as diverged", "[train][ranks]") {
  const TempDir dir;
  const JobResult result = run_job(job(
      dir,
      {"precision={compute: fp16, loss_scale: {initial: 1099511627776, floor: 549755813888, hysteresis: 1}}",
       "resilience.max_skipped_steps=2"},
      2));
  for (const int code : result.codes) CHECK(code == to_int(ExitCode::kDiverged));
  CHECK(result.steps.size() == 3);  // one while the scale could halve, two at the floor
}

// Case C6: the counters are state too.
TEST_CASE("loss scale: stop at every step and continue equals never stopping", "[train][ranks]") {
  const TempDir straight;
  const TempDir stopped;
  const std::vector<double> expected = scales_of(run_job(job(straight, {kTooLarge}, 2)));

  JobOptions options = job(stopped, {kTooLarge}, 2);
  options.stop_after_one_step = true;
  std::vector<double> scales;
  for (int step = 1; step <= 10; ++step) {
    const JobResult result = run_job(options);
    for (const int code : result.codes) REQUIRE(code == (step < 10 ? to_int(WorkerExit::kStoppedSaved) : 0));
    REQUIRE(result.steps.size() == 1);
    scales.push_back(scales_of(result).front());
    options.resume_path = step_dir(stopped.path(), step);
    options.incarnation += 1;
  }
  CHECK(scales == expected);
  CHECK(largest_difference(read_tensors(step_dir(straight.path(), 10)),
                           read_tensors(step_dir(stopped.path(), 10)),
                           1e-30) == 0);
}

TEST_CASE("loss scale: fp16 is fp32 to its rounding, and no other type has a scale", "[train][ranks]") {
  const Outcome wide = train({.dp = 2}, {"precision.compute=fp32"});
  const Outcome half = train({.dp = 2}, {"precision.compute=fp16"});
  for (std::size_t i = 0; i < wide.steps.size(); ++i) {
    CHECK(relative(*wide.steps[i].loss, *half.steps[i].loss) < 2e-3);
    CHECK(relative(*wide.steps[i].grad_norm, *half.steps[i].grad_norm) < 2e-2);
    CHECK(half.steps[i].loss_scale == 65536.0);
    CHECK_FALSE(wide.steps[i].loss_scale);
  }
}
