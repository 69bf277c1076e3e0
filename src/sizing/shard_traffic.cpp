#include "llmtrain/sizing/shard_traffic.hpp"

#include <utility>

namespace llmtrain {
namespace {

std::int64_t bytes_of_one(DType dtype) {
  return static_cast<std::int64_t>(bytes_of(dtype));
}

Traffic times(std::int64_t n, const Traffic& traffic) {
  return {.calls = n * traffic.calls, .bytes = n * traffic.bytes};
}

// Own weights of every segment, once.
Traffic one_gather(const std::vector<FlatSegment>& layout, DType compute) {
  Traffic traffic;
  for (const FlatSegment& segment : layout) {
    traffic.calls += 1;
    traffic.bytes += segment.own.size() * bytes_of_one(compute);
  }
  return traffic;
}

// Weights that are sharded are gathered when a pass comes to a segment whose lane holds another by then;
// lanes are empty when a step begins. Backward comes to the blocks only: the first segment's reads no
// weights, and the last one's follows its forward.
Traffic lane_gathers(const std::vector<FlatSegment>& layout, DType compute, std::int64_t accumulation) {
  const auto last = static_cast<SegmentIndex>(layout.size()) - 1;
  std::vector<SegmentIndex> visits;  // of one micro-batch
  for (SegmentIndex s = 0; s <= last; ++s) visits.push_back(s);
  for (SegmentIndex s = last - 1; s > 0; --s) visits.push_back(s);
  const LanePlan plan = plan_lanes(layout);
  std::vector<SegmentIndex> held(plan.elements.size(), -1);  // by lane
  Traffic traffic;
  for (std::int64_t pass = 0; pass < accumulation; ++pass)
    for (const SegmentIndex s : visits) {
      const auto index = static_cast<std::size_t>(s);
      SegmentIndex& occupant = held[static_cast<std::size_t>(plan.lane_of[index])];
      if (std::exchange(occupant, s) == s) continue;
      traffic.calls += 1;
      traffic.bytes += layout[index].own.size() * bytes_of_one(compute);
    }
  return traffic;
}

}  // namespace

ShardTraffic step_traffic(const std::vector<ParamSpec>& table,
                          DType compute,
                          std::int64_t accumulation,
                          ZeroPlace zero,
                          TensorPlace place) {
  if (zero.parts() == 1)
    return {.all_reduce = gradient_traffic(table, compute, zero.size * zero.copies, 0, 0, place)};
  const std::vector<FlatSegment> layout = flat_layout(table, place, zero);
  Traffic reduced;
  for (const FlatSegment& segment : layout) {
    reduced.calls += 1;
    reduced.bytes += segment.elements * bytes_of_one(main_type(compute));
  }
  const Traffic own{.calls = reduced.calls, .bytes = reduced.bytes / zero.parts()};
  return {.copies = zero.copies > 1 ? own : Traffic{},
          .all_reduce = {.calls = 1, .bytes = 8},  // the norm
          .reduce_scatter = times(zero.shards_gradients() ? accumulation : 1, reduced),
          .all_gather = zero.shards_weights() ? lane_gathers(layout, compute, accumulation)
                                              : one_gather(layout, compute)};
}

Traffic start_traffic(const std::vector<ParamSpec>& table, DType compute, ZeroPlace zero, TensorPlace place) {
  if (zero.parts() == 1 || zero.shards_weights()) return {};
  return one_gather(flat_layout(table, place, zero), compute);
}

}  // namespace llmtrain
