#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/placement/flat_layout.hpp"
#include "llmtrain/spec/job_spec.hpp"

// What a rank must hold and must send, in closed form: tests compare a run's own counts with these numbers,
// so that a layout that was only pretended is found out.
//
// It measures nothing and knows no activations.
namespace llmtrain {

// Of main gradients, masters and moments.
constexpr DType main_type(DType compute) {
  return compute == DType::kFp64 ? DType::kFp64 : DType::kFp32;
}

// Of weights and activations, and of gradients under way between ranks.
struct NumberFormats {
  NumberFormats(DType type)
      : compute(type), reduce(main_type(type)) {}  // NOLINT: the first implies the second
  NumberFormats(DType type, DType wire) : compute(type), reduce(wire) {}

  DType compute;
  DType reduce;
};

// Bytes; the fields of MemoryReport.
struct StaticMemory {
  std::int64_t params = 0;          // weights in the compute type
  std::int64_t grads = 0;           // main gradients: fp32, or fp64 under fp64
  std::int64_t optimizer = 0;       // master weights, when they are not the weights themselves, and moments
  std::int64_t host_optimizer = 0;  // the same, where it is offloaded to host memory

  friend bool operator==(const StaticMemory&, const StaticMemory&) = default;
};

// `table` is that of a rank's stage (stage_table), or of the whole model.
StaticMemory static_memory(const std::vector<ParamSpec>& table,
                           DType compute,
                           const OptimizerSpec& optimizer,
                           TensorPlace place = {},
                           ZeroPlace zero = {});

// The optimizer's part of it in host memory.
StaticMemory with_offloaded_optimizer(const StaticMemory& memory);

// What one rank gives to the collectives of one kind.
struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// all_reduce over a gradient group that shards nothing, in one step: the main gradients of every segment that
// owns parameters, once, whatever the accumulation, and `scalar_calls` small reductions of `scalar_bytes` in
// all (loss, token count, ...). A bucket is the most elements of one call. Nothing for one rank.
Traffic gradient_traffic(const std::vector<ParamSpec>& table,
                         NumberFormats formats,
                         int ranks,
                         std::int64_t scalar_calls,
                         std::int64_t scalar_bytes,
                         TensorPlace place = {},
                         std::optional<std::int64_t> bucket = {});

}  // namespace llmtrain
