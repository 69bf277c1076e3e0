#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/support/catch.hpp"
#include "tests/train/job_harness.hpp"
#include "tests/train/layout.hpp"
#include "tests/train/tiny_job.hpp"

// Whole runs of the tiny job on different layouts, and how far their numbers are apart.
namespace llmtrain::test {

struct Outcome {
  std::vector<StepReport> steps;
  std::map<std::string, std::vector<double>> tensors;  // weights and optimizer state after the last step
  std::vector<Event> events;
};

// Ten steps of sixteen sequences.
inline Outcome train(const Layout& layout,
                     std::vector<std::string> overrides,
                     const std::string& yaml = kTinyJob) {
  const TempDir dir;
  for (std::string& line : overrides_of(layout)) overrides.push_back(std::move(line));
  const JobResult result = run_job({.yaml = yaml,
                                    .overrides = overrides,
                                    .processes = layout.ranks(),
                                    .run_dir = dir.path(),
                                    .resume_path = {}});
  for (const int code : result.codes) REQUIRE(code == 0);
  REQUIRE(result.steps.size() == 10);
  return {result.steps, read_tensors(step_dir(dir.path(), 10)), result.events};
}

inline double relative(double a, double b) {
  return std::abs(a - b) / std::max(std::abs(a), 1e-3);
}

inline void check_equal(const Outcome& reference, const Outcome& other, double tolerance) {
  for (std::size_t i = 0; i < reference.steps.size(); ++i) {
    CHECK(relative(*reference.steps[i].loss, *other.steps[i].loss) <= tolerance);
    CHECK(relative(*reference.steps[i].grad_norm, *other.steps[i].grad_norm) <= tolerance);
    CHECK(reference.steps[i].lr == other.steps[i].lr);
    CHECK(reference.steps[i].tokens == other.steps[i].tokens);
  }
  CHECK(largest_difference(reference.tensors, other.tensors, 3e-2) <= tolerance);
}

}  // namespace llmtrain::test
