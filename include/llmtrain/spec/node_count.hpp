#pragma once

#include <string>

#include "llmtrain/core/result.hpp"

// How many hosts a job has: `4`, or `3:4` for a job that may start with fewer and take spares.
//
// One number or two, nothing else; what the range is used for is the business of whoever launches.
namespace llmtrain {

struct NodeCount {
  int min = 1;
  int max = 1;

  constexpr NodeCount() = default;
  constexpr NodeCount(int count) : min(count), max(count) {}  // NOLINT: implicit on purpose
  constexpr NodeCount(int least, int most) : min(least), max(most) {}

  constexpr bool is_range() const { return min != max; }
  friend bool operator==(const NodeCount&, const NodeCount&) = default;
};

inline constexpr int kMaxNodes = 65536;

// What was found and what is allowed, on failure.
Result<NodeCount> parse_node_count(const std::string& text);
// "4" or "3:4".
std::string to_string(const NodeCount& count);

}  // namespace llmtrain
