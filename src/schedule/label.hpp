#pragma once

#include <algorithm>
#include <string>

#include "llmtrain/schedule/schedule.hpp"
#include "llmtrain/schedule/timeline.hpp"

// What both drawings write on an action.
namespace llmtrain {

inline std::string label_of(const Schedule& schedule, int stage, const Action& action) {
  if (schedule.map.num_chunks() > 1) return schedule.notation(stage, action);
  return letter(action.kind) + std::to_string(action.micro_batch);
}

inline std::size_t longest_label(const Schedule& schedule, const Timeline& timeline) {
  std::size_t longest = 1;
  for (int stage = 0; stage < schedule.num_stages(); ++stage)
    for (const TimedAction& timed : timeline.stages[static_cast<std::size_t>(stage)])
      longest = std::max(longest, label_of(schedule, stage, timed.action).size());
  return longest;
}

}  // namespace llmtrain
