#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/schedule/schedule.hpp"

// A schedule as a CSV file that a person can edit: one row for each stage, one action a cell, in the notation
// of torch.distributed.pipelining ("2F0": virtual stage 2, forward, micro-batch 0). docs/SCHEDULES.md states
// the format. Which virtual stages a row names decides what the stage holds; empty cells mean nothing.
//
// What is read has passed the check, or is refused with the row and column of what is wrong, counted from 1.
namespace llmtrain {

inline constexpr std::uint64_t kMaxScheduleCsvBytes = 4 << 20;

// `name` is what messages call the text, and becomes the schedule's name.
Result<Schedule> parse_schedule_csv(std::string_view text, const std::string& name);
// Without empty cells; what parse_schedule_csv reads back is equal.
std::string to_csv(const Schedule& schedule);

// True for what is meant as a file wherever a schedule is named: it ends in ".csv".
bool is_schedule_file(std::string_view schedule);

// A file states its numbers itself; those that are given must agree with it.
struct ExpectedNumbers {
  std::optional<int> pp;
  std::optional<int> micro_batches;
  std::optional<int> virtual_stages;
};
Result<Schedule> load_schedule_csv(FileSystem& files,
                                   const std::string& path,
                                   const ExpectedNumbers& expected);

}  // namespace llmtrain
