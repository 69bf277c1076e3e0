#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/launch/verdict.hpp"

// What is done about a failure: resilience.on_failure, with its budgets.
//
// Pure: verdicts and times in, decisions out. It starts and kills nothing, and knows nothing of nodes but
// whether one is to be replaced. Without an entry of the user each class has this action:
//
//   exit, signal, stopped, transport, hang_*, unknown   restart
//   node_lost                                           replace_node
//   out_of_memory, missing_call, mismatched_call        restart:1 (the second one in a run stops it)
//   deterministic_crash                                 rollback:2
//
// `word:n` is a budget: after n of them the class stops the run. Whatever the table says, restarts are
// counted against max_restarts in restart_window, and cycles without a new step end with 67 (68 if hung).
namespace llmtrain {

enum class FailureAction {
  kRestart,      // in place, from the newest checkpoint
  kRollback,     // in place, from one checkpoint further back
  kReplaceNode,  // without the culprit's node: a spare takes its place, or the world shrinks, or it waits
  kStop,
};
std::string_view to_string(FailureAction action);

struct PolicyOptions {
  std::map<std::string, std::string>
      on_failure;  // class -> "restart", "rollback", "replace_node", "stop"[":n"]
  int max_restarts = 10;
  std::chrono::milliseconds restart_window{0};  // 0 = the whole run
  int no_progress_limit = 3;                    // restarts in a row without a new step
};

struct FailureEvent {
  FailureKind kind = FailureKind::kUnknown;
  std::chrono::milliseconds at{0};  // monotonic
  std::int64_t last_step = -1;      // newest finished step of the run so far
};

struct FailureDecision {
  FailureAction action = FailureAction::kRestart;
  ExitCode code = ExitCode::kDone;  // of kStop
  std::string reason;               // of kStop and kRollback, for a person
  int num_restarts = 0;             // in the window, the coming one included
};

class FailurePolicy {
 public:
  // kInvalidSpec names the entry that is not understood, and what is allowed.
  static Result<FailurePolicy> make(const PolicyOptions& options);

  FailureDecision decide(const FailureEvent& event);
  // Crashes in a row with the same last finished step, a coming one included: Evidence::crashes_at_step.
  int crashes_at(std::int64_t last_step) const;

 private:
  struct Rule {
    FailureAction action = FailureAction::kRestart;
    std::optional<int> budget;
  };
  explicit FailurePolicy(const PolicyOptions& options) : options_(options) {}
  FailureDecision stop(ExitCode code, std::string reason) const;

  PolicyOptions options_;
  std::map<FailureKind, Rule> rules_;
  std::map<FailureKind, int> used_;
  std::deque<std::chrono::milliseconds> restarts_;  // times of those in the window; at most max_restarts
  std::optional<std::int64_t> best_step_;
  int without_progress_ = 0;
};

}  // namespace llmtrain
