#include "llmtrain/train/faults.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/philox.hpp"
#include "llmtrain/train/failing_filesystem.hpp"

namespace llmtrain {

namespace {

// A page that may not be touched: the access is one that the kernel refuses, as of a stray pointer.
void touch_forbidden_memory() {
  void* const page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<volatile int*>(page) = 1;
}

// Takes memory until the kernel ends this process, which offers itself as the first to go. `mib` bounds what
// a host without a limit loses.
void exhaust_memory(std::int64_t mib) {
  constexpr std::size_t kChunk = 16UL << 20;
  if (std::FILE* const score = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("1000", score);
    std::fclose(score);
  }
  for (std::int64_t taken = 0; taken < mib; taken += kChunk >> 20) {
    void* const chunk = ::mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED) throw std::bad_alloc();
    std::memset(chunk, 1, kChunk);
  }
  throw InjectedFault(
      fmt::format("fault hook: {} MiB are taken, and nobody minds; give a larger `mib`", mib));
}

int errno_of(FaultErrno error) {
  switch (error) {
    case FaultErrno::kEnospc: return ENOSPC;
    case FaultErrno::kEio: return EIO;
    case FaultErrno::kEdquot: return EDQUOT;
    case FaultErrno::kErofs: return EROFS;
    case FaultErrno::kEstale: return ESTALE;
  }
  return EIO;
}

}  // namespace

FaultInjector::FaultInjector(std::vector<FaultSpec> faults, int rank, int incarnation)
    : faults_(std::move(faults)), rank_(rank), incarnation_(incarnation) {
  for (const FaultSpec& fault : faults_)
    if ((fault.kind == FaultKind::kSkipCollective || fault.kind == FaultKind::kWrongShape) && is_here(fault))
      call_faults_ = std::make_shared<CallFaults>();
}

bool FaultInjector::is_here(const FaultSpec& fault) const {
  return (fault.rank < 0 || fault.rank == rank_) &&
         (fault.incarnation < 0 || fault.incarnation == incarnation_);
}

bool FaultInjector::matches(const FaultSpec& fault, std::string_view point, std::int64_t step) const {
  if (fault.point != point || !is_here(fault)) return false;
  return fault.each == FaultEach::kStep || fault.step < 0 || fault.step == step;
}

void FaultInjector::at(std::string_view point, std::int64_t step) {
  for (const FaultSpec& fault : faults_)
    if (matches(fault, point, step)) fire(fault, point, step);
}

void FaultInjector::fire(const FaultSpec& fault, std::string_view point, std::int64_t step) const {
  switch (fault.kind) {
    case FaultKind::kKill: std::raise(SIGKILL); break;
    case FaultKind::kStop: std::raise(SIGSTOP); break;
    case FaultKind::kSleep: std::this_thread::sleep_for(std::chrono::milliseconds(fault.ms)); break;
    case FaultKind::kThrow:
      throw InjectedFault(fmt::format("fault hook: throw at {} of step {} on rank {}", point, step, rank_));
    case FaultKind::kSegv: touch_forbidden_memory(); break;
    case FaultKind::kAbort: std::abort();
    case FaultKind::kExit: ::_exit(fault.code);
    case FaultKind::kOom: exhaust_memory(fault.mib); break;
    case FaultKind::kSkipCollective: call_faults_->arm(CallFaults::Kind::kSkip); break;
    case FaultKind::kWrongShape: call_faults_->arm(CallFaults::Kind::kWrongShape); break;
    case FaultKind::kNan:
    case FaultKind::kJitter:
    case FaultKind::kIo:
    case FaultKind::kDropHeartbeats: break;
  }
}

std::unique_ptr<FileSystem> FaultInjector::filesystem(std::int64_t step) const {
  auto files = make_posix_filesystem();
  for (const FaultSpec& fault : faults_)
    if (fault.kind == FaultKind::kIo && matches(fault, fault.point, step))
      return make_failing_filesystem(std::move(files), fault.nth, errno_of(fault.error));
  return files;
}

std::function<void()> FaultInjector::jitter() const {
  for (const FaultSpec& fault : faults_) {
    if (fault.kind != FaultKind::kJitter || !is_here(fault)) continue;
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
