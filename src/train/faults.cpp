#include "llmtrain/train/faults.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "llmtrain/core/philox.hpp"

namespace llmtrain {

FaultInjector::FaultInjector(std::vector<FaultSpec> faults, int rank, int incarnation)
    : faults_(std::move(faults)), rank_(rank), incarnation_(incarnation) {}

bool FaultInjector::matches(const FaultSpec& fault, std::string_view point, std::int64_t step) const {
  if (fault.point != point) return false;
  if (fault.rank >= 0 && fault.rank != rank_) return false;
  if (fault.incarnation >= 0 && fault.incarnation != incarnation_) return false;
  return fault.each == FaultEach::kStep || fault.step < 0 || fault.step == step;
}

void FaultInjector::at(std::string_view point, std::int64_t step) {
  for (const FaultSpec& fault : faults_) {
    if (!matches(fault, point, step)) continue;
    switch (fault.kind) {
      case FaultKind::kKill: std::raise(SIGKILL); break;
      case FaultKind::kStop: std::raise(SIGSTOP); break;
      case FaultKind::kSleep: std::this_thread::sleep_for(std::chrono::milliseconds(fault.ms)); break;
      case FaultKind::kThrow:
        throw InjectedFault(fmt::format("fault hook: throw at {} of step {} on rank {}", point, step, rank_));
      case FaultKind::kNan:
      case FaultKind::kJitter: break;
    }
  }
}

std::function<void()> FaultInjector::jitter() const {
  for (const FaultSpec& fault : faults_) {
    if (fault.kind != FaultKind::kJitter || (fault.rank >= 0 && fault.rank != rank_)) continue;
    if (fault.incarnation >= 0 && fault.incarnation != incarnation_) continue;
    return [key = static_cast<std::uint64_t>(fault.seed),
            rank = static_cast<std::uint64_t>(rank_),
            longest = std::chrono::microseconds(1000 * fault.ms),
            count = std::make_shared<std::atomic<std::uint64_t>>(0)] {
      const auto random = philox(key, count->fetch_add(1, std::memory_order_relaxed), rank);
      if (random[0] % 8 == 0) std::this_thread::sleep_for(longest * (random[1] % 1024) / 1024);
    };
  }
  return nullptr;
}

bool FaultInjector::wants_nan(std::string_view point, std::int64_t step) const {
  for (const FaultSpec& fault : faults_)
    if (fault.kind == FaultKind::kNan && matches(fault, point, step)) return true;
  return false;
}

}  // namespace llmtrain
