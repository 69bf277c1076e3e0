#pragma once

#include <string>
#include <vector>

#include "llmtrain/schedule/action.hpp"
#include "llmtrain/schedule/stage_map.hpp"

// A pipeline schedule is data: for each stage the list of its computations, in the order it runs them.
//
// One optimizer step walks every program once. A Schedule says nothing about time, bytes or processes, and
// may be wrong: check.hpp judges it. What generate() and parse_schedule_csv() return has passed the check.
namespace llmtrain {

struct Schedule {
  std::string name;  // "1f1b", or the path of a CSV file
  int num_micro_batches = 0;
  StageMap map;
  std::vector<std::vector<Action>> programs;  // [stage]

  int num_stages() const { return map.num_stages(); }
  const std::vector<Action>& program(int stage) const { return programs[static_cast<std::size_t>(stage)]; }
  // "2F0": an action of `stage` in the notation of CSV files.
  std::string notation(int stage, const Action& action) const {
    return llmtrain::notation(map.virtual_stage({stage, action.chunk}), action.kind, action.micro_batch);
  }
};

}  // namespace llmtrain
