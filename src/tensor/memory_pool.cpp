#include "llmtrain/tensor/memory_pool.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include <malloc.h>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace llmtrain {
namespace {

struct Counter {
  std::atomic<std::int64_t> live{0};
  std::atomic<std::int64_t> peak{0};
  std::atomic<std::int64_t> allocations{0};

  void add(std::int64_t bytes) {
    const std::int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    allocations.fetch_add(1, std::memory_order_relaxed);
    std::int64_t seen = peak.load(std::memory_order_relaxed);
    while (seen < now && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
  void remove(std::int64_t bytes) { live.fetch_sub(bytes, std::memory_order_relaxed); }
  PoolUsage usage() const { return {.live_bytes = live, .peak_bytes = peak, .allocations = allocations}; }
};

// One per process, as the allocator is: libtorch frees through it until the very end, so it is never
// destroyed.
struct Counters {
  std::array<Counter, kNumMemoryPools> pools;
  Counter total;
};

Counters& counters() {
  static Counters* const instance = new Counters;
  return *instance;
}

thread_local MemoryPool current_pool = MemoryPool::kActivations;

// In front of every block, so that freeing needs no lookup. A cache line, which keeps the block aligned.
struct alignas(64) BlockHeader {
  std::int64_t bytes;
  MemoryPool pool;
};

void free_block(void* data) {
  if (data == nullptr) return;
  auto* const header = static_cast<BlockHeader*>(data) - 1;
  counters().pools[static_cast<std::size_t>(header->pool)].remove(header->bytes);
  counters().total.remove(header->bytes);
  std::free(header);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_block, c10::Device(c10::DeviceType::CPU)};
    const std::size_t size = sizeof(BlockHeader) + (bytes + 63) / 64 * 64;
    auto* const header = static_cast<BlockHeader*>(std::aligned_alloc(alignof(BlockHeader), size));
    if (header == nullptr) throw std::bad_alloc();
    new (header) BlockHeader{.bytes = static_cast<std::int64_t>(bytes), .pool = current_pool};
    counters().pools[static_cast<std::size_t>(current_pool)].add(header->bytes);
    counters().total.add(header->bytes);
    void* const data = header + 1;
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

PoolScope::PoolScope(MemoryPool pool) : outer_(current_pool) {
  current_pool = pool;
}
PoolScope::~PoolScope() {
  current_pool = outer_;
}

void install_host_memory_counter() {
  static std::once_flag once;
  std::call_once(once, [] {
    // 32 MiB is the largest threshold glibc takes; blocks below it come from the heap and return to it.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
    constexpr std::uint8_t kPriority = 1;
    c10::SetCPUAllocator(new CountingAllocator, kPriority);
  });
}

PoolUsage host_memory(MemoryPool pool) {
  return counters().pools[static_cast<std::size_t>(pool)].usage();
}

PoolUsage host_memory_total() {
  return counters().total.usage();
}

void reset_host_memory_peaks() {
  for (Counter& pool : counters().pools) pool.peak = pool.live.load();
  counters().total.peak = counters().total.live.load();
}

}  // namespace llmtrain
