#include "llmtrain/sizing/shard_traffic.hpp"

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

}  // namespace

ShardTraffic step_traffic(const std::vector<ParamSpec>& table,
                          DType compute,
                          std::int64_t accumulation,
                          ZeroPlace zero,
                          TensorPlace place) {
  if (zero.parts() == 1) return {.all_reduce = gradient_traffic(table, compute, zero.size, 0, 0, place)};
  const std::vector<FlatSegment> layout = flat_layout(table, place, zero);
  Traffic reduced;
  for (const FlatSegment& segment : layout) {
    reduced.calls += 1;
    reduced.bytes += segment.elements * bytes_of_one(main_type(compute));
  }
  return {.all_reduce = {.calls = 1, .bytes = 8},  // the norm
          .reduce_scatter = times(zero.shards_gradients() ? accumulation : 1, reduced),
          .all_gather = one_gather(layout, compute)};
}

Traffic start_traffic(const std::vector<ParamSpec>& table, DType compute, ZeroPlace zero, TensorPlace place) {
  if (zero.parts() == 1) return {};
  return one_gather(flat_layout(table, place, zero), compute);
}

}  // namespace llmtrain
