#pragma once

#include <cstdint>
#include <vector>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/placement/shard.hpp"
#include "llmtrain/spec/job_spec.hpp"

// What a rank must hold and must send, in closed form: tests compare a run's own counts with these numbers,
// so that a layout that was only pretended is found out.
//
// It describes data parallelism over whole replicas of what a tensor-parallel rank holds; it measures nothing
// and knows no activations.
namespace llmtrain {

// Elements from one parameter to the next in a flat buffer: 64 bytes of bf16, so that offsets agree in
// buffers of every type.
inline constexpr std::int64_t kFlatAlignment = 32;

// Bytes; the fields of MemoryReport.
struct StaticMemory {
  std::int64_t params = 0;     // weights in the compute type
  std::int64_t grads = 0;      // main gradients: fp32, or fp64 under fp64
  std::int64_t optimizer = 0;  // master weights, when they are not the weights themselves, and moments

  friend bool operator==(const StaticMemory&, const StaticMemory&) = default;
};

StaticMemory static_memory(const std::vector<ParamSpec>& table,
                           DType compute,
                           const OptimizerSpec& optimizer,
                           TensorPlace place = {});

// What one rank gives to the collectives of one kind.
struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// all_reduce over the gradient group in one step: the main gradients of every segment that owns parameters,
// once, whatever the accumulation, and `scalar_calls` small reductions of `scalar_bytes` in all (loss, token
// count, ...). Nothing for one rank.
Traffic gradient_traffic(const std::vector<ParamSpec>& table,
                         DType compute,
                         int ranks,
                         std::int64_t scalar_calls,
                         std::int64_t scalar_bytes,
                         TensorPlace place = {});

}  // namespace llmtrain
