#pragma once

#include <vector>

#include "llmtrain/schedule/schedule.hpp"
#include "llmtrain/schedule/timeline.hpp"

// Plays a complete schedule: each stage starts its next action as soon as it is free and the input is there.
// In one that deadlocks the stages stop where they are stuck, and their lists are shorter than their
// programs.
namespace llmtrain {

std::vector<std::vector<TimedAction>> play(const Schedule& schedule, const Costs& costs);

}  // namespace llmtrain
