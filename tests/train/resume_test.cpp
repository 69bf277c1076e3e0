#include <string>

#include <fmt/format.h>

#include "llmtrain/job/worker_exit.hpp"

#include "tests/support/catch.hpp"
#include "tests/train/job_harness.hpp"
#include "tests/train/tiny_job.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

// A run that is stopped after every single step and resumed each time.
TEST_CASE("resume: stop at every step and continue equals never stopping, bit for bit", "[train][ranks]") {
  const int ranks = GENERATE(1, 2);
  const std::string compute = GENERATE("fp32", "bf16");
  CAPTURE(ranks, compute);
  const TempDir straight;
  const TempDir stopped;
  JobOptions options{.yaml = kTinyJob,
                     .overrides = {"precision.compute=" + compute, fmt::format("parallelism.dp={}", ranks)},
                     .processes = ranks,
                     .run_dir = straight.path(),
                     .resume_path = {}};
  run_job(options);

  options.run_dir = stopped.path();
  options.stop_after_one_step = true;
  for (int step = 1; step <= 10; ++step) {
    const JobResult result = run_job(options);
    const int expected = step < 10 ? to_int(WorkerExit::kStoppedSaved) : 0;
    for (const int code : result.codes) REQUIRE(code == expected);
    options.resume_path = step_dir(stopped.path(), step);
    options.incarnation += 1;
  }

  for (const int step : {0, 10})
    CHECK(largest_difference(read_tensors(step_dir(straight.path(), step)),
                             read_tensors(step_dir(stopped.path(), step)),
                             1e-30) == 0);
}

TEST_CASE("resume: another number of ranks goes on with the same numbers", "[train][ranks]") {
  const TempDir straight;
  const TempDir resumed;
  JobOptions options{
      .yaml = kTinyJob, .overrides = {}, .processes = 1, .run_dir = straight.path(), .resume_path = {}};
  run_job(options);
  options.run_dir = resumed.path();
  options.stop_after_one_step = true;
  run_job(options);
  options.stop_after_one_step = false;
  options.processes = 4;
  options.overrides = {"parallelism.dp=4"};
  options.resume_path = step_dir(resumed.path(), 1);
  options.incarnation = 1;
  const JobResult result = run_job(options);

  for (const int code : result.codes) REQUIRE(code == 0);
  CHECK(largest_difference(read_tensors(step_dir(straight.path(), 10)),
                           read_tensors(step_dir(resumed.path(), 10)),
                           3e-2) < 1e-10);
}

TEST_CASE("resume: a checkpoint of another model is refused by name", "[train][ranks]") {
  const TempDir dir;
  JobOptions options{
      .yaml = kTinyJob, .overrides = {}, .processes = 1, .run_dir = dir.path(), .resume_path = {}};
  options.stop_after_one_step = true;
  run_job(options);
  options.overrides = {"model.ffn_hidden_size=64"};
  options.resume_path = step_dir(dir.path(), 1);
  const JobResult result = run_job(options);
  CHECK(result.codes.front() != 0);
  CHECK(result.codes.front() != to_int(WorkerExit::kStoppedSaved));
}

TEST_CASE("resume: the evaluation that a stop left out comes first", "[train][ranks]") {
  const TempDir dir;
  JobOptions options{.yaml = kTinyJob,
                     .overrides = {"train.duration=2 steps",
                                   "train.eval_interval=1 steps",
                                   "train.eval_steps=1",
                                   "data.valid=[{path: synthetic}]"},
                     .processes = 1,
                     .run_dir = dir.path(),
                     .resume_path = {},
                     .stop_after_one_step = true};
  const auto evaluated_steps = [](const JobResult& result) {
    std::vector<std::int64_t> steps;
    for (const Event& event : result.events)
      if (const auto* report = std::get_if<EvalReport>(&event.body)) steps.push_back(report->step);
    return steps;
  };
  CHECK(evaluated_steps(run_job(options)).empty());
  options.resume_path = step_dir(dir.path(), 1);
  options.incarnation = 1;
  options.stop_after_one_step = false;
  CHECK(evaluated_steps(run_job(options)) == std::vector<std::int64_t>{1, 2});
}
