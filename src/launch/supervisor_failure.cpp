// What a supervisor does when something has failed: the kill, the verdict, the decision.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/launch/supervisor.hpp"

namespace llmtrain {

void Supervisor::note_failure(const WorkerEnd& end) {
  failed_ = true;
  if (!first_rank_) first_rank_ = end.rank;
  if (classify(end) != ExitClass::kFinal || final_code_) return;
  first_rank_ = end.rank;
  final_code_ = static_cast<ExitCode>(end.code);
  final_reason_ = fmt::format("rank {}: {}", end.rank, describe_worker_exit(end.code));
}

Commands Supervisor::worker_stalled(Instant now, int rank) {
  if (state_ != State::kRunning && state_ != State::kSettling) return {};
  failed_ = hung_ = true;
  if (!first_rank_) first_rank_ = rank;
  return kill(now);
}

Commands Supervisor::abort(Instant now, ExitCode code, const std::string& reason) {
  if (state_ == State::kDone) return {};
  aborted_ = true;
  if (!final_code_) {
    final_code_ = code;
    final_reason_ = reason;
  }
  return alive_.empty() ? finish(*final_code_, final_reason_) : kill(now);
}

Commands Supervisor::kill(Instant now) {
  if (state_ == State::kKilling) return {};
  state_ = State::kKilling;
  deadline_ = now + options_.kill_limit;
  return {KillWorkers{}};
}

// Something in the kernel holds them: a driver, a dead file system, a frozen group. What they could still do
// they will not do, because the signal comes first; but their node is of no use any more.
Commands Supervisor::leave_unkillable(Instant now) {
  unkillable_.assign(alive_.begin(), alive_.end());
  alive_.clear();
  failed_ = true;
  return all_gone(now);
}

std::string Supervisor::name_unkillable() const {
  return fmt::format(
      "{} {} did not die within {} s of SIGKILL: the kernel holds {} (a driver, a dead file "
      "system, a frozen cgroup), and this node needs attention",
      unkillable_.size() == 1 ? "rank" : "ranks",
      fmt::join(unkillable_, ", "),
      options_.kill_limit.count() / 1000,
      unkillable_.size() == 1 ? "it" : "them");
}

Commands Supervisor::all_gone(Instant now) {
  deadline_.reset();
  if (failed_ || final_code_) return after_failure(now);
  if (growing_ && !stopping_ && (any_stopped_ || state_ == State::kKilling)) return start_again(now);
  // A kill without a failure is the end of a stop that took too long, or was hurried.
  if (stopping_ && (any_stopped_ || state_ == State::kKilling)) return finish_stopped();
  return finish(ExitCode::kDone, "done");
}

JudgedFailure Supervisor::judge() const {
  if (options_.judge) return options_.judge({first_rank_, first_node_, hung_, unkillable_});
  JudgedFailure judged;
  for (const int rank : unkillable_)
    judged.useless_nodes.insert(nodes_.at(static_cast<std::size_t>(rank / per_node())));
  if (first_node_) {
    judged.kind = FailureKind::kNodeLost;
    judged.node = first_node_;
    return judged;
  }
  if (!hung_) judged.kind = FailureKind::kExit;
  if (first_rank_) judged.node = nodes_.at(static_cast<std::size_t>(*first_rank_ / per_node()));
  return judged;
}

bool Supervisor::exclude(int node, Instant now) {
  if (options_.num_nodes == 1 || node < 0 || node >= options_.num_nodes) return false;
  ready_.erase(node);
  away_since_ = now;
  replacing_ = node;
  return true;
}

Commands Supervisor::after_failure(Instant now) {
  if (!first_rank_) hung_ = true;
  const JudgedFailure judged = judge();
  IncarnationFailed failure{
      first_rank_, first_node_, false, num_restarts(), 0, {}, Milliseconds{0}, unkillable_};
  const auto end = [&](const Commands& last) {
    Commands commands{failure};
    commands.insert(commands.end(), last.begin(), last.end());
    return commands;
  };
  if (aborted_ || (stopping_ && final_code_)) return end(finish(*final_code_, final_reason_));
  if (options_.total_steps > 0 && committed_step_ >= options_.total_steps)
    return end(finish(ExitCode::kDone, "done: the last step was committed before the failure"));
  if (stopping_) return end(finish_stopped());
  if (!unkillable_.empty() && options_.num_nodes == 1)
    return end(finish(ExitCode::kPreflight, name_unkillable()));
  const FailureDecision decision =
      policy_.decide({judged.kind, hung_, final_code_, now, best_step_, judged.before_load});
  if (decision.action == FailureAction::kStop)
    return end(finish(decision.code, decision.reason.empty() ? final_reason_ : decision.reason));
  failure.restarts = true;
  failure.num_restarts = decision.num_restarts;
  failure.rollback = rollback_ = decision.rollback;
  std::set<int> excluded = judged.useless_nodes;
  if (decision.action == FailureAction::kRestartExcludingNode && judged.node) excluded.insert(*judged.node);
  for (const int node : excluded)
    if (exclude(node, now)) failure.excluded.insert(node);
  ++incarnation_;
  // The first restarts cost nothing; a job that falls over again and again is slowed down.
  if (decision.in_a_row > 2) {
    const int doublings = std::min(decision.in_a_row - 3, 20);
    failure.delay = std::min(options_.backoff_max, Milliseconds{options_.backoff_first.count() << doublings});
  }
  if (failure.delay.count() == 0) return end(start_workers(now));
  state_ = State::kBackoff;
  growing_ = false;
  deadline_ = now + failure.delay;
  return {failure};
}

}  // namespace llmtrain
