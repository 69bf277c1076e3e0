#pragma once

#include <cstdint>
#include <vector>

#include "llmtrain/schedule/schedule.hpp"

// When everything happens, if every action takes as long as `costs` says and nothing else takes time.
//
// Whole units, so that shares of time are exact fractions. Chunks cost the same on all stages: a planner that
// knows layers and links needs more than this.
namespace llmtrain {

struct Costs {
  std::int64_t forward = 1;  // of one chunk and one micro-batch
  std::int64_t input_gradient = 1;
  std::int64_t weight_gradient = 1;

  constexpr std::int64_t of(ActionKind kind) const {
    switch (kind) {
      case ActionKind::kForward: return forward;
      case ActionKind::kBackward: return input_gradient + weight_gradient;
      case ActionKind::kInputGradient: return input_gradient;
      case ActionKind::kWeightGradient: return weight_gradient;
    }
    return 0;
  }
};

struct TimedAction {
  Action action;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct Timeline {
  std::vector<std::vector<TimedAction>> stages;
  std::int64_t makespan = 0;  // from the first begin to the last end

  std::int64_t idle(int stage) const;  // of the makespan
  std::int64_t idle() const;           // of all stages together
  double bubble_share() const;         // idle / (stages x makespan)
};

// The schedule must have passed the check.
Timeline simulate(const Schedule& schedule, const Costs& costs = {});

}  // namespace llmtrain
