#pragma once

#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/job/load_job.hpp"
#include "llmtrain/sizing/memory.hpp"

#include "tests/train/parity.hpp"

// What the ranks of a run said that they sent and held, to be compared with closed forms.
namespace llmtrain::test {

inline constexpr std::int64_t kSteps = 10;
inline constexpr std::int64_t kTokensPerStep = 16 * 16;

inline ModelSpec resolved_model(const std::vector<std::string>& overrides) {
  const TempDir dir;
  const std::string file = dir.path() + "/job.yaml";
  std::ofstream(file) << kTinyJob;
  auto job = load_job({.files = {file}, .overrides = overrides});
  REQUIRE(job);
  return job->spec.model;
}

inline Traffic total_of(const Outcome& outcome, int rank, const std::string& axis, const std::string& op) {
  for (const Event& event : outcome.events)
    if (const auto* totals = std::get_if<CommTotals>(&event.body))
      if (totals->rank == rank && totals->axis == axis && totals->op == op)
        return {.calls = totals->count, .bytes = totals->bytes};
  return {};
}

inline Traffic times(std::int64_t n, const Traffic& traffic) {
  return {.calls = n * traffic.calls, .bytes = n * traffic.bytes};
}

inline Traffic sum(const Traffic& a, const Traffic& b) {
  return {.calls = a.calls + b.calls, .bytes = a.bytes + b.bytes};
}

inline StaticMemory memory_of(const Outcome& outcome, int rank) {
  for (const Event& event : outcome.events)
    if (const auto* memory = std::get_if<MemoryReport>(&event.body))
      if (memory->rank == rank)
        return {.params = memory->params,
                .grads = memory->grads,
                .optimizer = memory->optimizer,
                .host_optimizer = memory->host_optimizer};
  return {};
}

}  // namespace llmtrain::test
