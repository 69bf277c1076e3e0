#include "llmtrain/placement/flat_layout.hpp"

#include <algorithm>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

void cut(FlatSegment& segment, ZeroPlace zero) {
  const std::int64_t parts = zero.parts();
  LLMTRAIN_CHECK(zero.rank >= 0 && zero.rank < zero.size, "rank {} of {}", zero.rank, zero.size);
  segment.elements = round_up(segment.elements, kFlatAlignment * parts);
  const std::int64_t size = segment.elements / parts;
  const std::int64_t begin = parts == 1 ? 0 : zero.rank * size;
  segment.own = {begin, begin + size};
  for (FlatSlot& slot : segment.slots) {
    const auto local = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at - slot.offset, 0, slot.shard.numel());
    };
    slot.owned = {local(segment.own.begin), local(segment.own.end)};
  }
}

// Absent when the holder is in the table no more.
std::optional<SegmentIndex> segment_of(const std::vector<ParamSpec>& table, const std::string& name) {
  for (const ParamSpec& param : table)
    if (param.name == name) return param.segment;
  return std::nullopt;
}

}  // namespace

std::vector<FlatSegment> flat_layout(const std::vector<ParamSpec>& table, TensorPlace place, ZeroPlace zero) {
  std::vector<FlatSegment> segments;
  for (const ParamSpec& param : table) {
    const auto count = static_cast<std::size_t>(param.segment) + 1;
    LLMTRAIN_CHECK(count >= segments.size(),
                   "{} of segment {} comes after segment {}",
                   param.name,
                   param.segment,
                   segments.size() - 1);
    segments.resize(count);
    if (!param.tied_with.empty()) {
      const auto holder = segment_of(table, param.tied_with);
      if (holder != param.segment) segments.back().borrows = holder;
      continue;
    }
    FlatSegment& segment = segments.back();
    segment.slots.push_back(
        {.spec = &param, .shard = shard_of(param, place), .offset = segment.elements, .owned = {}});
    segment.elements += round_up(segment.slots.back().shard.numel(), kFlatAlignment);
  }
  for (FlatSegment& segment : segments) cut(segment, zero);
  return segments;
}

LanePlan plan_lanes(const std::vector<FlatSegment>& layout) {
  LanePlan plan{.lane_of = {}, .elements = {0, 0}};
  for (std::size_t s = 0; s < layout.size(); ++s) {
    const bool lends = std::any_of(layout.begin(), layout.end(), [s](const FlatSegment& other) {
      return other.borrows == static_cast<SegmentIndex>(s);
    });
    const bool begins_early = std::any_of(layout[s].slots.begin(),
                                          layout[s].slots.end(),
                                          [](const auto& slot) { return slot.spec->grad_in_forward; });
    const bool has_own_lane = lends || begins_early;
    if (has_own_lane) plan.elements.push_back(0);
    const std::size_t lane = has_own_lane ? plan.elements.size() - 1 : s % 2;
    plan.lane_of.push_back(static_cast<int>(lane));
    plan.elements[lane] = std::max(plan.elements[lane], layout[s].elements);
  }
  return plan;
}

LanePlan own_lanes(const std::vector<FlatSegment>& layout) {
  LanePlan plan;
  for (const FlatSegment& segment : layout) {
    plan.lane_of.push_back(static_cast<int>(plan.elements.size()));
    plan.elements.push_back(segment.elements);
  }
  return plan;
}

}  // namespace llmtrain
