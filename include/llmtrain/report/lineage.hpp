#pragma once

#include <cstdint>
#include <limits>
#include <vector>

// Which steps of which incarnation are part of the run's history, and which were computed again.
//
// An incarnation that starts from step n takes over the steps up to n of the one whose checkpoint that was;
// what earlier ones did beyond it is lost. Pure arithmetic.
namespace llmtrain {

struct IncarnationSpan {
  std::int64_t first_step = -1;  // step it started from; -1: it never got that far
  std::int64_t last_step = -1;   // last finished; -1: none
};

inline constexpr std::int64_t kAllSteps = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kNoSteps = -1;

// For each incarnation, in order: the last of its steps that counts; kAllSteps, or kNoSteps.
std::vector<std::int64_t> accepted_until(const std::vector<IncarnationSpan>& spans);

}  // namespace llmtrain
