#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llmtrain/spec/job_spec.hpp"

#include "tests/train/covering.hpp"
#include "tests/train/layout.hpp"

// The mesh grid: which jobs must compute what one rank computes. All axes that the product has, crossed so
// that every pair of their values that `validate` accepts meets at least once.
namespace llmtrain::test {

struct GridJob {
  std::string name;               // the whole combination, in words
  std::vector<std::string> task;  // model and masks, as --set
  Layout layout;
  std::vector<std::string> overrides;  // of kGridJob: task, optimizer and layout
};

struct Grid {
  std::vector<GridJob> jobs;
  Covering covering;
  std::string summary;  // of axes, values and pairs, for people
};

// Ten steps of a tiny model in fp64.
extern const char* const kGridJob;

// `ranks` is the largest world, or with `exactly` the only one.
Grid make_grid(int ranks, bool exactly, std::size_t min_jobs, std::size_t max_jobs);

// Resolved and valid, or null.
std::optional<JobSpec> grid_spec(const std::vector<std::string>& overrides);

}  // namespace llmtrain::test
