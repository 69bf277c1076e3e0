#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/diagnosis/verdict.hpp"

// What the error texts of the communicators say, for a verdict: who did not arrive, who calls otherwise.
namespace llmtrain {

// Begins the line that an agent puts behind last words that speak of a limit: which one it was on that node.
inline constexpr std::string_view kLimitPrefix = "llmtrain: a limit was reached: ";

// "...; did not arrive: ranks 1, 3": {1, 3}. Empty: the text names nobody.
std::set<int> missing_ranks(const std::string& text);

struct Disagreement {
  std::string text;                  // the sentence of one of the reports
  std::map<int, std::string> calls;  // by rank, as the reports describe them
};
// Absent: no report says that calls differ.
std::optional<Disagreement> find_disagreement(const std::vector<WorkerReport>& reports);

// The ranks whose call is made by fewer ranks than another one; all of them when none is made by more.
std::vector<int> minority(const std::map<int, std::string>& calls);

}  // namespace llmtrain
