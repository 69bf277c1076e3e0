#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "llmtrain/launch/supervisor.hpp"

// The agent's clock, and what poll(2) makes of its deadlines.
namespace llmtrain {

inline Instant monotonic_now() {
  return std::chrono::duration_cast<Instant>(std::chrono::steady_clock::now().time_since_epoch());
}

inline std::optional<Instant> earliest(std::optional<Instant> a, std::optional<Instant> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

// Milliseconds until then, at least 0 and at most an hour; -1 without a deadline.
inline int poll_timeout(std::optional<Instant> deadline) {
  if (!deadline) return -1;
  const Milliseconds left = *deadline - monotonic_now();
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

}  // namespace llmtrain
