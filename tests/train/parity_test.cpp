#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "tests/support/catch.hpp"
#include "tests/train/job_harness.hpp"
#include "tests/train/tiny_job.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

struct Layout {
  int ranks = 1;
  int accumulation = 1;
};

struct Outcome {
  std::vector<StepReport> steps;
  std::map<std::string, std::vector<double>> tensors;
};

Outcome train(const Layout& layout, std::vector<std::string> overrides) {
  const TempDir dir;
  overrides.push_back(fmt::format("parallelism.dp={}", layout.ranks));
  overrides.push_back(fmt::format("batch.micro_batch_size={}", 16 / (layout.ranks * layout.accumulation)));
  const JobResult result = run_job({.yaml = kTinyJob,
                                    .overrides = overrides,
                                    .processes = layout.ranks,
                                    .run_dir = dir.path(),
                                    .resume_path = {}});
  for (const int code : result.codes) REQUIRE(code == 0);
  REQUIRE(result.steps.size() == 10);
  return {result.steps, read_tensors(step_dir(dir.path(), 10))};
}

double relative(double a, double b) {
  return std::abs(a - b) / std::max(std::abs(a), 1e-3);
}

void check_equal(const Outcome& reference, const Outcome& other, double tolerance) {
  for (std::size_t i = 0; i < reference.steps.size(); ++i) {
    CHECK(relative(*reference.steps[i].loss, *other.steps[i].loss) <= tolerance);
    CHECK(relative(*reference.steps[i].grad_norm, *other.steps[i].grad_norm) <= tolerance);
    CHECK(reference.steps[i].lr == other.steps[i].lr);
    CHECK(reference.steps[i].tokens == other.steps[i].tokens);
  }
  CHECK(largest_difference(reference.tensors, other.tensors, 3e-2) <= tolerance);
}

}  // namespace

TEST_CASE("data parallel: any number of ranks and micro-batches is one run, fp64", "[train][ranks]") {
  const std::string optimizer = GENERATE("{name: adamw, lr: 3.0e-3}", "{name: sgd, lr: 0.5}");
  const std::vector<std::string> overrides = {"optimizer=" + optimizer};
  const Outcome reference = train({1, 1}, overrides);
  CHECK(*reference.steps.back().loss < *reference.steps.front().loss - 0.1);
  for (const int ranks : {1, 2, 4})
    for (const int accumulation : {1, 2, 4}) {
      CAPTURE(optimizer, ranks, accumulation);
      check_equal(reference, train({ranks, accumulation}, overrides), 1e-10);
    }
}

TEST_CASE("data parallel: any number of ranks and micro-batches is one run, fp32", "[train][ranks]") {
  const std::vector<std::string> overrides = {
      "precision.compute=fp32", "optimizer.name=sgd", "optimizer.lr=0.1"};
  const Outcome reference = train({1, 1}, overrides);
  for (const int ranks : {2, 4})
    for (const int accumulation : {1, 4}) {
      CAPTURE(ranks, accumulation);
      check_equal(reference, train({ranks, accumulation}, overrides), 1e-5);
    }
}

TEST_CASE("data parallel: the same job twice gives the same bits", "[train][ranks]") {
  const std::string compute = GENERATE("fp32", "bf16");
  CAPTURE(compute);
  const Outcome once = train({2, 2}, {"precision.compute=" + compute});
  const Outcome again = train({2, 2}, {"precision.compute=" + compute});
  CHECK(largest_difference(once.tensors, again.tensors, 1e-30) == 0);
}

TEST_CASE("data parallel: another seed is another model", "[train][ranks]") {
  const Outcome a = train({2, 2}, {});
  const Outcome b = train({2, 2}, {"run.seed=8"});
  CHECK(largest_difference(a.tensors, b.tensors, 3e-2) > 0.1);
}
