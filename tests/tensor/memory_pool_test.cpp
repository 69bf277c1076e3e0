#include "llmtrain/tensor/memory_pool.hpp"

#include <thread>

#include "llmtrain/tensor/tensor.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("memory pool: live and peak bytes follow allocations by purpose", "[tensor]") {
  install_host_memory_counter();
  install_host_memory_counter();
  const std::int64_t before = host_memory(MemoryPool::kParameters).live_bytes;
  at::Tensor weights;
  {
    const PoolScope scope(MemoryPool::kParameters);
    weights = zeros_host({1000}, DType::kFp32);
    const PoolScope inner(MemoryPool::kOptimizer);
    const at::Tensor moments = zeros_host({1000}, DType::kFp64);
    CHECK(host_memory(MemoryPool::kOptimizer).live_bytes == 8000);
  }
  CHECK(host_memory(MemoryPool::kParameters).live_bytes - before == 4000);
  CHECK(host_memory(MemoryPool::kOptimizer).live_bytes == 0);
  CHECK(host_memory(MemoryPool::kOptimizer).peak_bytes == 8000);
  reset_host_memory_peaks();
  CHECK(host_memory(MemoryPool::kOptimizer).peak_bytes == 0);

  // A block goes back to the pool it came from, whatever the scope and thread that frees it.
  const PoolScope scope(MemoryPool::kGradients);
  std::thread([&] { weights.reset(); }).join();
  CHECK(host_memory(MemoryPool::kParameters).live_bytes == before);
  CHECK(host_memory(MemoryPool::kGradients).live_bytes == 0);
}

TEST_CASE("memory pool: blocks are aligned, empty ones are free, the total is the sum", "[tensor]") {
  install_host_memory_counter();
  const std::int64_t before = host_memory_total().live_bytes;
  const at::Tensor a = empty_host({3}, DType::kBf16);
  const at::Tensor b = empty_host({0}, DType::kFp32);
  const at::Tensor c = empty_host({1 << 20}, DType::kFp32);
  CHECK(reinterpret_cast<std::uintptr_t>(a.data_ptr()) % 64 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(c.data_ptr()) % 64 == 0);
  CHECK(host_memory_total().live_bytes - before == 6 + (4 << 20));
}
