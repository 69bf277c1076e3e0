#pragma once

#include <chrono>

// Time as a value: whoever decides by time is told the time, so that tests and simulations own the clock.
namespace llmtrain {

using Milliseconds = std::chrono::milliseconds;
using Instant = std::chrono::milliseconds;  // of one host's monotonic clock, since any origin

inline Instant steady_now() {
  return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace llmtrain
