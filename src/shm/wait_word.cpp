#include "llmtrain/shm/wait_word.hpp"

#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace llmtrain {
namespace {

// Not FUTEX_PRIVATE: the sleepers are other processes.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void WaitWord::advance_to(std::uint32_t next) {
  // Sequentially consistent, as is the sleeper's registration: either we see it, or it sees `next`.
  value.store(next, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) futex(value, FUTEX_WAKE, INT_MAX, nullptr);
}

bool spin_until(const WaitWord& word, std::uint32_t target, std::chrono::nanoseconds spin) {
  if (spin.count() <= 0) return false;
  const auto end = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (word.reached(target)) return true;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

bool sleep_slice(WaitWord& word, std::uint32_t target, std::chrono::nanoseconds slice) {
  word.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = word.value.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - target) < 0) {
    const timespec timeout{.tv_sec = static_cast<time_t>(slice.count() / 1'000'000'000),
                           .tv_nsec = static_cast<long>(slice.count() % 1'000'000'000)};
    futex(word.value, FUTEX_WAIT, seen, &timeout);
  }
  word.sleepers.fetch_sub(1, std::memory_order_relaxed);
  return word.reached(target);
}

}  // namespace llmtrain
