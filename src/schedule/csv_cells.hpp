#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/schedule/action.hpp"

// The first half of reading a CSV: from bytes to actions with their places, knowing nothing of schedules.
namespace llmtrain {

struct CsvAction {
  int virtual_stage = 0;
  ActionKind kind = ActionKind::kForward;
  int micro_batch = 0;
  int column = 0;  // from 0, empty cells included
};

struct CsvCells {
  std::vector<std::vector<CsvAction>> rows;
  std::vector<std::string> problems;  // at most kMaxProblems
};

CsvCells read_csv_cells(std::string_view text);

// "row 2, column 5 (1F3)", counted from 1; `what` is left out when empty.
std::string cell_name(int row, int column, std::string_view what);

}  // namespace llmtrain
