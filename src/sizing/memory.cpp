#include "llmtrain/sizing/memory.hpp"

#include <numeric>

#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

std::int64_t bytes_of_one(DType dtype) {
  return static_cast<std::int64_t>(bytes_of(dtype));
}

std::int64_t elements_of(const LanePlan& lanes) {
  return std::accumulate(lanes.elements.begin(), lanes.elements.end(), std::int64_t{0});
}

int states_of(const OptimizerSpec& optimizer) {
  if (optimizer.name == OptimizerKind::kAdamW) return 2;
  return optimizer.momentum == 0 ? 0 : 1;
}

}  // namespace

StaticMemory static_memory(const std::vector<ParamSpec>& table,
                           DType compute,
                           const OptimizerSpec& optimizer,
                           TensorPlace place,
                           ZeroPlace zero) {
  const std::int64_t main_bytes = bytes_of_one(main_type(compute));
  const std::vector<FlatSegment> layout = flat_layout(table, place, zero);
  StaticMemory memory;
  if (zero.shards_gradients()) memory.grads += elements_of(plan_lanes(layout)) * main_bytes;
  if (zero.shards_weights())
    memory.params +=
        elements_of(zero.keeps_weights ? own_lanes(layout) : plan_lanes(layout)) * bytes_of_one(compute);
  for (const FlatSegment& segment : layout) {
    memory.params += (zero.shards_weights() ? segment.own.size() : segment.elements) * bytes_of_one(compute);
    memory.grads += (zero.shards_gradients() ? segment.own.size() : segment.elements) * main_bytes;
    if (compute != main_type(compute)) memory.optimizer += segment.own.size() * main_bytes;
    for (const FlatSlot& slot : segment.slots)  // moments are cut to 64 bytes of their own type
      memory.optimizer += states_of(optimizer) * round_up(slot.owned.size(), 64 / main_bytes) * main_bytes;
  }
  return memory;
}

StaticMemory with_offloaded_optimizer(const StaticMemory& memory) {
  return {.params = memory.params, .grads = memory.grads, .host_optimizer = memory.optimizer};
}

Traffic gradient_traffic(const std::vector<ParamSpec>& table,
                         NumberFormats formats,
                         int ranks,
                         std::int64_t scalar_calls,
                         std::int64_t scalar_bytes,
                         TensorPlace place,
                         std::optional<std::int64_t> bucket) {
  if (ranks <= 1) return {};
  Traffic traffic{.calls = scalar_calls, .bytes = scalar_bytes};
  for (const FlatSegment& segment : flat_layout(table, place)) {
    if (segment.slots.empty()) continue;
    traffic.calls += bucket ? ceil_div(segment.elements, *bucket) : 1;
    traffic.bytes += segment.elements * bytes_of_one(formats.reduce);
  }
  return traffic;
}

}  // namespace llmtrain
