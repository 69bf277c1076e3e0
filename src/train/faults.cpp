#include "llmtrain/train/faults.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include <fmt/format.h>

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
      case FaultKind::kNan: break;
    }
  }
}

bool FaultInjector::wants_nan(std::string_view point, std::int64_t step) const {
  for (const FaultSpec& fault : faults_)
    if (fault.kind == FaultKind::kNan && matches(fault, point, step)) return true;
  return false;
}

}  // namespace llmtrain
