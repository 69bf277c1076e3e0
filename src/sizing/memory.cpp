#include "llmtrain/sizing/memory.hpp"

#include <set>

#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

DType main_type(DType compute) {
  return compute == DType::kFp64 ? DType::kFp64 : DType::kFp32;
}

std::int64_t bytes_of_one(DType dtype) {
  return static_cast<std::int64_t>(bytes_of(dtype));
}

// Elements of all flat buffers of a rank together, each shard padded to `alignment` elements.
std::int64_t padded_elements(const std::vector<ParamSpec>& table, TensorPlace place, std::int64_t alignment) {
  std::int64_t n = 0;
  for (const ParamSpec& param : table)
    if (param.tied_with.empty()) n += round_up(shard_of(param, place).numel(), alignment);
  return n;
}

int states_of(const OptimizerSpec& optimizer) {
  if (optimizer.name == OptimizerKind::kAdamW) return 2;
  return optimizer.momentum == 0 ? 0 : 1;
}

}  // namespace

StaticMemory static_memory(const std::vector<ParamSpec>& table,
                           DType compute,
                           const OptimizerSpec& optimizer,
                           TensorPlace place) {
  const std::int64_t main_bytes = bytes_of_one(main_type(compute));
  const std::int64_t elements = padded_elements(table, place, kFlatAlignment);
  StaticMemory memory;
  memory.params = elements * bytes_of_one(compute);
  memory.grads = elements * main_bytes;
  if (compute != main_type(compute)) memory.optimizer += elements * main_bytes;
  // Moments are cut to 64 bytes of their own type.
  memory.optimizer += states_of(optimizer) * padded_elements(table, place, 64 / main_bytes) * main_bytes;
  return memory;
}

Traffic gradient_traffic(const std::vector<ParamSpec>& table,
                         DType compute,
                         int ranks,
                         std::int64_t scalar_calls,
                         std::int64_t scalar_bytes,
                         TensorPlace place) {
  if (ranks <= 1) return {};
  std::set<SegmentIndex> segments;
  for (const ParamSpec& param : table)
    if (param.tied_with.empty()) segments.insert(param.segment);
  return {.calls = static_cast<std::int64_t>(segments.size()) + scalar_calls,
          .bytes = padded_elements(table, place, kFlatAlignment) * bytes_of_one(main_type(compute)) +
                   scalar_bytes};
}

}  // namespace llmtrain
