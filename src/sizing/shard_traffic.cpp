#include "llmtrain/sizing/shard_traffic.hpp"

#include <algorithm>
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
    if (segment.slots.empty()) continue;
    traffic.calls += 1;
    traffic.bytes += segment.own.size() * bytes_of_one(compute);
  }
  return traffic;
}

// Weights that are sharded are gathered when a pass comes to a segment, or to the one before it, and its lane
// holds another by then; lanes are empty when a step begins.
class LaneGathers {
 public:
  LaneGathers(const std::vector<FlatSegment>& layout, DType compute)
      : layout_(layout), compute_(compute), plan_(plan_lanes(layout)), held_(plan_.elements.size(), -1) {}

  // The embedding's backward reads no weights, and a deferred weight gradient reads none at all.
  void run(const Action& action, const SegmentRange& chunk) {
    if (action.kind == ActionKind::kForward)
      for (SegmentIndex s = chunk.first; s < chunk.end; ++s) acquire(s, s + 1);
    if (makes_input_gradient(action.kind))
      for (SegmentIndex s = chunk.end - 1; s >= std::max(1, chunk.first); --s) acquire(s, s - 1);
  }
  const Traffic& traffic() const { return traffic_; }

 private:
  void acquire(SegmentIndex segment, SegmentIndex next) {
    if (const auto lender = layout_[static_cast<std::size_t>(segment)].borrows) gather(*lender);
    gather(segment);
    const bool is_here = next > 0 && next < static_cast<SegmentIndex>(layout_.size()) &&
                         !layout_[static_cast<std::size_t>(next)].slots.empty();
    if (is_here) gather(next);
  }
  void gather(SegmentIndex segment) {
    const auto index = static_cast<std::size_t>(segment);
    SegmentIndex& occupant = held_[static_cast<std::size_t>(plan_.lane_of[index])];
    if (std::exchange(occupant, segment) == segment) return;
    traffic_.calls += 1;
    traffic_.bytes += layout_[index].own.size() * bytes_of_one(compute_);
  }

  const std::vector<FlatSegment>& layout_;
  DType compute_;
  LanePlan plan_;
  std::vector<SegmentIndex> held_;  // by lane
  Traffic traffic_{};
};

Traffic weight_gathers(const std::vector<FlatSegment>& layout,
                       DType compute,
                       const StepShape& step,
                       ZeroPlace zero) {
  if (!zero.shards_weights() || zero.keeps_weights) return one_gather(layout, compute);
  LaneGathers gathers(layout, compute);
  for (const Action& action : step.program)
    gathers.run(action, step.chunks[static_cast<std::size_t>(action.chunk)]);
  return gathers.traffic();
}

}  // namespace

ShardTraffic step_traffic(const std::vector<ParamSpec>& table,
                          NumberFormats formats,
                          const StepShape& step,
                          ZeroPlace zero,
                          TensorPlace place) {
  if (zero.parts() == 1)
    return {.all_reduce =
                gradient_traffic(table, formats, zero.size * zero.copies, 0, 0, place, step.bucket)};
  const std::vector<FlatSegment> layout = flat_layout(table, place, zero);
  Traffic reduced;
  for (const FlatSegment& segment : layout) {
    if (segment.slots.empty()) continue;
    reduced.calls += 1;
    reduced.bytes += segment.elements * bytes_of_one(formats.reduce);
  }
  const Traffic own{.calls = reduced.calls, .bytes = reduced.bytes / zero.parts()};
  return {.copies = zero.copies > 1 ? own : Traffic{},
          .all_reduce = {.calls = 1, .bytes = 8},  // the norm
          .reduce_scatter = times(zero.shards_gradients() ? step.accumulation : 1, reduced),
          .all_gather = weight_gathers(layout, formats.compute, step, zero)};
}

ShardTraffic step_traffic(const std::vector<ParamSpec>& table,
                          NumberFormats formats,
                          std::int64_t accumulation,
                          ZeroPlace zero,
                          TensorPlace place) {
  StepShape step{.accumulation = accumulation, .chunks = {{0, table.back().segment + 1}}};
  for (std::int64_t m = 0; m < accumulation; ++m) {
    step.program.push_back({.kind = ActionKind::kForward});
    step.program.push_back({.kind = ActionKind::kBackward});
  }
  return step_traffic(table, formats, step, zero, place);
}

Traffic start_traffic(const std::vector<ParamSpec>& table, DType compute, ZeroPlace zero, TensorPlace place) {
  if (zero.parts() == 1 || zero.shards_weights()) return {};
  return one_gather(flat_layout(table, place, zero), compute);
}

}  // namespace llmtrain
