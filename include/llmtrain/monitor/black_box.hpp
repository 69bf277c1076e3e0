#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

// One page of shared memory per worker that its agent owns.
//
// The worker writes where it is; the agent reads it, also after the worker has died or was stopped,
// and that is how failures and hangs are named. The one word that travels the other way is
// `stop_request`. Plain lock-free atomics, no pointers: both processes map the same bytes. It is never
// stored on disk, so it carries no version: agent and worker are the same binary.
namespace llmtrain {

enum class Phase : std::uint32_t {
  kStarting,
  kLoading,  // reading a checkpoint
  kDataWait,
  kStageWait,  // for what another pipeline stage sends
  kForward,
  kBackward,
  kReduce,
  kOptimizer,
  kEvaluate,
  kSaving,
  kIdle,  // between steps
  kFinished,
};

inline constexpr std::size_t kNumPhases = static_cast<std::size_t>(Phase::kFinished) + 1;

constexpr std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, kNumPhases> kNames = {"starting",
                                                               "loading a checkpoint",
                                                               "waiting for data",
                                                               "waiting for a pipeline stage",
                                                               "forward",
                                                               "backward",
                                                               "reducing gradients",
                                                               "optimizer",
                                                               "evaluating",
                                                               "saving a checkpoint",
                                                               "between steps",
                                                               "finished"};
  return kNames[static_cast<std::size_t>(phase)];
}

// One collective, as its rank saw it. `finished_ns` 0 = still inside.
struct CollectiveRecord {
  std::atomic<std::uint64_t> sequence{0};  // within its group, from 1: members can be compared
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::int64_t> started_ns{0};  // CLOCK_MONOTONIC
  std::atomic<std::int64_t> finished_ns{0};
  std::array<char, 16> group{};  // "dp", "world", ...; zero-padded
  std::array<char, 24> op{};     // "all_reduce", ...; zero-padded
};

struct BlackBox {
  std::atomic<std::int64_t> heartbeat_ns{0};  // CLOCK_MONOTONIC, written at every phase change
  std::atomic<std::int64_t> step{0};          // last finished step
  std::atomic<Phase> phase{Phase::kStarting};
  std::atomic<std::int64_t> micro_batch{0};
  std::atomic<std::uint32_t> stop_request{0};  // agent to worker: 0 = run on, 1 = stop after this step

  static constexpr std::size_t kRingSize =
      32;  // newest collective at ring[(num_collectives - 1) % kRingSize]
  std::atomic<std::uint64_t> num_collectives{0};
  std::array<CollectiveRecord, kRingSize> ring{};

  // The call that the rank stands in: a call that was begun and is not finished may be under way while the
  // rank computes, and by then the ring may have forgotten it. `standing` counts while the number is not 0.
  std::atomic<std::uint64_t> standing_number{0};  // of all calls, from 1
  CollectiveRecord standing{};

  std::array<std::atomic<std::int64_t>, kNumPhases> phase_ns{};  // time spent in each, up to the heartbeat

  // Called by the worker.
  void enter(Phase next) {
    const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    const std::int64_t since = heartbeat_ns.load(std::memory_order_relaxed);
    std::atomic<std::int64_t>& spent =
        phase_ns[static_cast<std::size_t>(phase.load(std::memory_order_relaxed))];
    if (since != 0)
      spent.store(spent.load(std::memory_order_relaxed) + now - since, std::memory_order_relaxed);
    phase.store(next, std::memory_order_relaxed);
    heartbeat_ns.store(now, std::memory_order_relaxed);
  }

  double milliseconds_in(Phase which) const {
    return static_cast<double>(phase_ns[static_cast<std::size_t>(which)].load(std::memory_order_relaxed)) /
           1e6;
  }
};

static_assert(sizeof(BlackBox) <= 4096, "the black box is one page");
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<Phase>::is_always_lock_free);

}  // namespace llmtrain
