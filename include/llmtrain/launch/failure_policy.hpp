#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/instant.hpp"
#include "llmtrain/diagnosis/verdict.hpp"
#include "llmtrain/launch/restart_history.hpp"
#include "llmtrain/spec/job_spec.hpp"

// What is done about a failure: resilience.on_failure, with its budgets.
//
// Pure: verdicts and times in, decisions out. It starts and kills nothing, and knows nothing of nodes but
// whether one is to be left out. The classes of the table and what the verdict calls them:
//
//   crash           exit, signal, deterministic_crash, mismatched_call; unknown, if a process ended
//   node_lost       node_lost
//   hang            hang_compute, hang_input, hang_collective, missing_call; unknown, if none ended
//   oom             out_of_memory
//   stopped_worker  stopped
//   transport       transport
//   data            a worker that ends with 73
//   divergence      a worker that ends with 71
//
// `stop` ends the job with the worker's own code for the last two, with 68 for hang, stopped_worker and
// transport, and with 66 for the others. Whatever the table says: restarts count against max_restarts in
// restart_window (66), no_progress_limit restarts in a row that bring no new step end the job (67; 68 when
// the last failure was a hang), a second kill for lack of memory in a row without one does too (67), and the
// second failure at one step goes one checkpoint further back, if the checkpoint can be the reason: it had
// been read, and no node, link or other process did it.
namespace llmtrain {

struct PolicyOptions {
  OnFailureSpec on_failure;
  int max_restarts = 10;
  Milliseconds restart_window{0};  // 0 = the life of the policy
  int no_progress_limit = 3;       // restarts in a row without a new step
};

struct FailureEvent {
  FailureKind kind = FailureKind::kUnknown;
  bool hung = false;                   // nobody ended by itself
  std::optional<ExitCode> final_code;  // of a worker that says that another try would end the same way
  Instant at{0};
  std::int64_t last_step = -1;  // newest finished step of the run so far
  bool before_load = false;     // the checkpoint had not been read
};

struct FailureDecision {
  FailureAction action = FailureAction::kRestart;
  ExitCode code = ExitCode::kDone;  // of kStop
  std::string reason;               // of kStop; empty when the worker's own end says it all
  int rollback = 0;                 // of a restart: 1 = from one checkpoint further back
  int num_restarts = 0;             // in the window, the coming one included
  int in_a_row = 1;                 // failures with the same last finished step, this one included
};

class FailurePolicy {
 public:
  explicit FailurePolicy(const PolicyOptions& options) : options_(options) {}

  // Goes on where another one was; `now` is on this one's clock.
  void take_over(Instant now, const RestartHistory& history);
  RestartHistory history(Instant now) const;

  FailureDecision decide(const FailureEvent& event);
  // The leader before was lost with its node, whatever its workers had come to: it counts as a restart.
  FailureDecision leader_lost(Instant now);
  // Failures in a row with the same last finished step, a coming one included: Evidence::crashes_at_step.
  int crashes_at(std::int64_t last_step) const;
  int num_restarts() const { return static_cast<int>(restarts_.size()); }

 private:
  FailureDecision stop(ExitCode code, std::string reason) const;
  // One more restart, if the budget allows it; otherwise the end.
  std::optional<FailureDecision> spend(Instant now);

  PolicyOptions options_;
  std::deque<Instant> restarts_;  // times of those in the window; at most max_restarts
  std::optional<std::int64_t> best_step_;
  int without_progress_ = 0;
  int for_memory_ = 0;  // of the last ones without progress, those that were killed for memory
};

}  // namespace llmtrain
