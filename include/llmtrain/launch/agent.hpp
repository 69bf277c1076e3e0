#pragma once

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/coordinator.hpp"
#include "llmtrain/launch/node_hands.hpp"
#include "llmtrain/launch/stop_signals.hpp"
#include "llmtrain/monitor/events.hpp"

// The agent of a job on one node: hands and coordinator in one process.
//
// One thread, one poll loop over process descriptors, stop signals, control sockets and deadlines. It
// decides nothing itself and maps no libtorch.
namespace llmtrain {

class Agent {
 public:
  // `files` and `sink` must outlive the agent.
  Agent(HandsOptions hands,
        CoordinatorOptions coordinator,
        std::vector<int> stop_signals,
        const RunDir& run,
        FileSystem& files,
        EventSink& sink);

  // Runs the job to its end and returns its code. No process of the job is left then.
  ExitCode run();

 private:
  void wait(const StopSignals& signals) const;
  void exchange(Instant now);

  std::vector<int> stop_signals_;
  NodeHands hands_;
  Coordinator coordinator_;
};

}  // namespace llmtrain
