#pragma once

#include <chrono>

// The time of day, for people who read what is written down; nothing is decided by it.
namespace llmtrain {

inline double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace llmtrain
