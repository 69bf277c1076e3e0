#include "llmtrain/placement/stage_table.hpp"

#include <algorithm>
#include <optional>

namespace llmtrain {
namespace {

bool holds(std::span<const SegmentRange> chunks, SegmentIndex segment) {
  return std::any_of(
      chunks.begin(), chunks.end(), [segment](const SegmentRange& chunk) { return chunk.contains(segment); });
}

SegmentIndex segment_of(const std::vector<ParamSpec>& table, const std::string& name) {
  return std::find_if(table.begin(), table.end(), [&](const ParamSpec& param) { return param.name == name; })
      ->segment;
}

// The segment that lies elsewhere and lends its values to one that lies here.
std::optional<SegmentIndex> lender(const std::vector<ParamSpec>& table,
                                   std::span<const SegmentRange> chunks) {
  for (const ParamSpec& param : table) {
    if (param.tied_with.empty() || !holds(chunks, param.segment)) continue;
    const SegmentIndex segment = segment_of(table, param.tied_with);
    if (!holds(chunks, segment)) return segment;
  }
  return std::nullopt;
}

}  // namespace

std::vector<ParamSpec> stage_table(const std::vector<ParamSpec>& table,
                                   std::span<const SegmentRange> chunks) {
  const std::optional<SegmentIndex> copied = lender(table, chunks);
  std::vector<ParamSpec> held;
  for (const ParamSpec& param : table) {
    if (!holds(chunks, param.segment) && param.segment != copied) continue;
    held.push_back(param);
    held.back().is_copy = param.segment == copied;
  }
  return held;
}

}  // namespace llmtrain
