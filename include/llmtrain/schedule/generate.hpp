#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"
#include "llmtrain/schedule/schedule.hpp"

// The schedules that llmtrain knows by name. Pure functions of the numbers; docs/SCHEDULES.md compares them.
namespace llmtrain {

struct ScheduleRequest {
  std::string schedule = "1f1b";
  int pp = 1;
  int micro_batches = 1;
  std::optional<int> virtual_stages;  // of each stage; absent: what the schedule wants (1, or 2)
};

// gpipe, 1f1b, interleaved, zb-h1, zbv.
std::span<const std::string_view> schedule_names();

// An error (kInvalidSpec) names the number that does not fit and the nearest that does.
Result<Schedule> generate(const ScheduleRequest& request);

}  // namespace llmtrain
