#pragma once

#include <csignal>

// Signals with a meaning between an agent and its workers.
namespace llmtrain {

// The main thread writes its native stack to descriptor 2 and goes on (monitor/crash_handler.hpp).
inline constexpr int kStackSignal = SIGUSR2;

}  // namespace llmtrain
