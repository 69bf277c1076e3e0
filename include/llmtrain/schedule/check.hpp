#pragma once

#include <functional>
#include <string>
#include <vector>

#include "llmtrain/schedule/schedule.hpp"

// Plays a schedule on paper, before anything is launched with it.
//
// Right means: every micro-batch has its forward and its backward (B, or I and W) exactly once on every
// virtual stage; on a stage F comes before B or I, and I before W; messages leave each link's sender in the
// order in which its receiver takes them (flow.hpp); and no stages wait for each other in a circle. Says
// nothing about memory or speed.
namespace llmtrain {

// How a message names action `index` of a stage; index -1: the stage as a whole.
using PlaceNamer = std::function<std::string(int stage, int index)>;
// "stage 1, action 4 (1F3)", actions counted from 0.
PlaceNamer by_action(const Schedule& schedule);

// What is wrong, one sentence each, at most kMaxProblems; empty when the schedule is right. Later checks
// presume earlier ones: an incomplete schedule is not searched for deadlocks.
inline constexpr std::size_t kMaxProblems = 10;
std::vector<std::string> check(const Schedule& schedule, const PlaceNamer& place);
std::vector<std::string> check(const Schedule& schedule);

}  // namespace llmtrain
