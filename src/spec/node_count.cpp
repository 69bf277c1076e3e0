#include "llmtrain/spec/node_count.hpp"

#include <fmt/format.h>

#include "llmtrain/spec/scalars.hpp"

namespace llmtrain {
namespace {

bool parse_count(const std::string& text, int& count) {
  return parse_scalar(text, count) == ScalarFault::kNone && count >= 1 && count <= kMaxNodes;
}

}  // namespace

Result<NodeCount> parse_node_count(const std::string& text) {
  const std::size_t colon = text.find(':');
  NodeCount count;
  const bool readable = parse_count(text.substr(0, colon), count.min) &&
                        parse_count(colon == std::string::npos ? text : text.substr(colon + 1), count.max);
  if (!readable)
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("= {}: not a number of nodes", text.empty() ? "\"\"" : text.substr(0, 60)),
                 fmt::format("allowed: a whole number from 1 to {}, or MIN:MAX", kMaxNodes)};
  if (count.min > count.max)
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("= {}: more at least than at most", text),
                 fmt::format("allowed: {}:{}", count.max, count.min)};
  return count;
}

std::string to_string(const NodeCount& count) {
  return count.is_range() ? fmt::format("{}:{}", count.min, count.max) : std::to_string(count.max);
}

}  // namespace llmtrain
