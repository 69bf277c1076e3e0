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

// What the finished steps of this incarnation have cost a rank, by what it did: written at the end of a step,
// so that ranks can be compared by whole steps. All nanoseconds.
struct StepCosts {
  std::atomic<std::int64_t> writing{0};  // the step whose costs are being written
  std::atomic<std::int64_t> step{
      0};  // the one whose costs these are; equal to `writing` = all belong together
  std::atomic<std::int64_t> total_ns{0};    // saves and evaluations left out
  std::atomic<std::int64_t> compute_ns{0};  // neither waiting for data nor standing in a collective
  std::atomic<std::int64_t> data_ns{0};     // waiting for data
  std::atomic<std::int64_t> sending_ns{0};  // what it sent was on its way (core/tcp_send_time.hpp)
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
  std::array<std::atomic<std::int64_t>, kNumPhases> stood_ns{};  // of it, standing in finished collectives
  StepCosts costs{};

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

  void add_stood(std::int64_t ns) {
    const auto now_in = static_cast<std::size_t>(phase.load(std::memory_order_relaxed));
    stood_ns[now_in].store(stood_ns[now_in].load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
  }
  // Right after a phase was entered, when the times of all others are complete. What a GPU computes is not
  // seen by the host's clock: it has to say so.
  void write_costs(std::int64_t finished, bool host_computes, std::int64_t sending_ns) {
    std::int64_t total = 0;
    std::int64_t stood = 0;
    for (std::size_t i = 0; i < kNumPhases; ++i) {
      if (!is_of_steps(static_cast<Phase>(i))) continue;
      total += phase_ns[i].load(std::memory_order_relaxed);
      stood += stood_ns[i].load(std::memory_order_relaxed);
    }
    const std::int64_t data = phase_ns[static_cast<std::size_t>(Phase::kDataWait)].load();
    costs.writing.store(finished);
    costs.total_ns.store(total);
    costs.compute_ns.store(host_computes ? total - stood - data : 0);
    costs.data_ns.store(data);
    costs.sending_ns.store(sending_ns);
    costs.step.store(finished);
  }

  static constexpr bool is_of_steps(Phase which) {
    return which != Phase::kStarting && which != Phase::kLoading && which != Phase::kEvaluate &&
           which != Phase::kSaving && which != Phase::kFinished;
  }

  double milliseconds_in(Phase which) const {
    return static_cast<double>(phase_ns[static_cast<std::size_t>(which)].load(std::memory_order_relaxed)) /
           1e6;
  }
};

static_assert(sizeof(BlackBox) <= 4096, "the black box is one page");
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<Phase>::is_always_lock_free);

}  // namespace llmtrain
