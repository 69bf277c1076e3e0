#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "llmtrain/core/instant.hpp"

// What poll(2) makes of an agent's deadlines.
namespace llmtrain {

inline std::optional<Instant> earliest(std::optional<Instant> a, std::optional<Instant> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

// Milliseconds until then, at least 0 and at most an hour; -1 without a deadline.
inline int poll_timeout(std::optional<Instant> deadline) {
  if (!deadline) return -1;
  const Milliseconds left = *deadline - steady_now();
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

}  // namespace llmtrain
