#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// Bytes of host tensors by purpose, counted at every allocation, so that claims about memory can be
// asserted.
//
// An allocator that a process installs once, before its first tensor; until then nothing is counted.
// Blocks are 64-byte aligned. What a block is for is said by the innermost PoolScope of the allocating
// thread. Memory that does not pass through libtorch's allocator (BLAS scratch, code) is not seen.
namespace llmtrain {

enum class MemoryPool { kActivations, kParameters, kGradients, kOptimizer, kHostOptimizer, kMeasurement };
inline constexpr int kNumMemoryPools = 6;

constexpr std::string_view to_string(MemoryPool pool) {
  switch (pool) {
    case MemoryPool::kActivations: return "activations";
    case MemoryPool::kParameters: return "params";
    case MemoryPool::kGradients: return "grads";
    case MemoryPool::kOptimizer: return "optimizer";
    case MemoryPool::kHostOptimizer: return "host_optimizer";
    case MemoryPool::kMeasurement: return "measurement";
  }
  return "?";
}

struct PoolUsage {
  std::int64_t live_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t allocations = 0;
};

// Everything a thread allocates in this scope belongs to the pool. kActivations outside of any scope.
class PoolScope {
 public:
  explicit PoolScope(MemoryPool pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  MemoryPool outer_;
};

// Makes libtorch's CPU allocator a counting one, and keeps freed memory in the process, since mapping it
// anew at every step costs page faults. A second call does nothing.
void install_host_memory_counter();

PoolUsage host_memory(MemoryPool pool);
PoolUsage host_memory_total();
// Sets every peak to what is live now.
void reset_host_memory_peaks();

}  // namespace llmtrain
