#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

// A counter in shared memory that one side advances and the other sides sleep on.
//
// It works between threads and between processes that map the same bytes: a short spin, then a futex.
// Zeroed memory is a valid word. Counters wrap; comparisons are by signed distance.
namespace llmtrain {

struct alignas(64) WaitWord {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};  // a sleeper that was killed leaves its count: extra wakes, no harm

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  // Publishes everything written before it to those who see `next`, and wakes them.
  void advance_to(std::uint32_t next);
};

static_assert(sizeof(WaitWord) == 64 && std::atomic<std::uint32_t>::is_always_lock_free);

// How long a sleeper stays away before it looks around for dead peers, aborts and deadlines.
inline constexpr std::chrono::milliseconds kWaitSlice{50};

// Busy-waits up to `spin`; true when the target was reached.
bool spin_until(const WaitWord& word, std::uint32_t target, std::chrono::nanoseconds spin);
// Sleeps until the word moves, at most `slice`; true when the target was reached.
bool sleep_slice(WaitWord& word, std::uint32_t target, std::chrono::nanoseconds slice);

// True when the target was reached; false when `give_up`, asked at every slice, said so.
template <class GiveUp>
bool wait_until(WaitWord& word, std::uint32_t target, std::chrono::nanoseconds spin, GiveUp&& give_up) {
  if (word.reached(target) || spin_until(word, target, spin)) return true;
  while (!sleep_slice(word, target, kWaitSlice)) {
    // The peer may have arrived and left between the sleep and the question: look once more.
    if (give_up()) return word.reached(target);
  }
  return true;
}

}  // namespace llmtrain
