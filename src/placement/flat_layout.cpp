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
    if (!param.tied_with.empty()) continue;
    FlatSegment& segment = segments.back();
    segment.slots.push_back(
        {.spec = &param, .shard = shard_of(param, place), .offset = segment.elements, .owned = {}});
    segment.elements += round_up(segment.slots.back().shard.numel(), kFlatAlignment);
  }
  for (FlatSegment& segment : segments) cut(segment, zero);
  return segments;
}

}  // namespace llmtrain
