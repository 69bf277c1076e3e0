#include "llmtrain/launch/supervisor.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/job/worker_exit.hpp"

namespace llmtrain {

ExitClass classify(const WorkerEnd& end) {
  if (end.signaled) return ExitClass::kCrash;
  switch (end.code) {
    case to_int(ExitCode::kDone): return ExitClass::kFinished;
    case to_int(WorkerExit::kStoppedSaved): return ExitClass::kStoppedSaved;
    case to_int(WorkerExit::kStoppedUnsaved): return ExitClass::kStoppedUnsaved;
    case to_int(WorkerExit::kLostPeer):
    case to_int(ExitCode::kHang): return ExitClass::kLostPeer;
    case to_int(ExitCode::kUsage):
    case to_int(ExitCode::kPreflight):
    case to_int(ExitCode::kNoCheckpoint):
    case to_int(ExitCode::kHeld):
    case to_int(ExitCode::kDiverged):
    case to_int(ExitCode::kStorage):
    case to_int(ExitCode::kData):
    case to_int(ExitCode::kCorruptionSuspected): return ExitClass::kFinal;
    default: return ExitClass::kCrash;
  }
}

Supervisor::Supervisor(const SupervisorOptions& options)
    : options_(options),
      incarnation_(options.first_incarnation),
      best_step_(std::max<std::int64_t>(options.committed_step, 0)),
      best_step_at_failure_(best_step_),
      committed_step_(options.committed_step) {
  if (options.num_nodes == 1) ready_ = {0};
}

Commands Supervisor::start(Instant now) {
  LLMTRAIN_CHECK(state_ == State::kIdle, "a supervisor is started once");
  return start_workers(now);
}

// As soon as every node is there; at once when they are.
Commands Supervisor::start_workers(Instant now) {
  LLMTRAIN_CHECK(alive_.empty(), "{} workers of the last incarnation are alive", alive_.size());
  if (std::ssize(ready_) < options_.num_nodes) {
    state_ = State::kGathering;
    deadline_ = now + options_.join_timeout;
    return {};
  }
  state_ = State::kRunning;
  deadline_.reset();
  for (int rank = 0; rank < options_.num_workers; ++rank) alive_.insert(rank);
  failed_ = hung_ = any_stopped_ = false;
  first_rank_.reset();
  first_node_.reset();
  return {StartWorkers{incarnation_, failures_at_step_ >= 2 ? 1 : 0}};
}

Commands Supervisor::worker_ended(Instant now, const WorkerEnd& end) {
  if (state_ == State::kDone) return {};
  LLMTRAIN_CHECK(alive_.erase(end.rank) == 1, "rank {} ended, but it was not alive", end.rank);
  const ExitClass kind = classify(end);
  // What dies of our own kill is a consequence; a verdict such as "data error" still counts.
  if (state_ != State::kKilling || kind == ExitClass::kFinal) {
    if (kind == ExitClass::kCrash || kind == ExitClass::kFinal) note_failure(end);
    if (kind == ExitClass::kLostPeer) failed_ = true;
  }
  if (kind == ExitClass::kStoppedSaved || kind == ExitClass::kStoppedUnsaved) any_stopped_ = stopping_ = true;
  if (kind == ExitClass::kStoppedSaved) checkpoint_committed(best_step_);
  if (alive_.empty()) return all_gone(now);
  if (state_ == State::kKilling) return {};
  if (first_rank_) return kill(now);
  if (state_ == State::kSettling) return {};
  if (failed_) {
    state_ = State::kSettling;
    deadline_ = now + options_.settle;
  } else if (!deadline_) {
    deadline_ = now + options_.stop_grace;  // when one leaves in peace, the others follow
  }
  return {};
}

void Supervisor::note_failure(const WorkerEnd& end) {
  failed_ = true;
  if (!first_rank_) first_rank_ = end.rank;
  if (classify(end) != ExitClass::kFinal || final_code_) return;
  first_rank_ = end.rank;
  final_code_ = static_cast<ExitCode>(end.code);
  final_reason_ = fmt::format("rank {}: {}", end.rank, describe_worker_exit(end.code));
}

Commands Supervisor::stop_requested(Instant now) {
  const bool again = std::exchange(stopping_, true);
  switch (state_) {
    case State::kIdle:
    case State::kGathering:
    case State::kBackoff: return finish_stopped();
    case State::kRunning:
      if (again) return kill(now);
      deadline_ = now + options_.stop_grace;
      return {RequestStop{}};
    case State::kSettling: return kill(now);
    case State::kKilling:
    case State::kDone: return {};
  }
  return {};
}

Commands Supervisor::node_ready(Instant now, int node) {
  ready_.insert(node);
  return state_ == State::kGathering && std::ssize(ready_) >= options_.num_nodes ? start_workers(now)
                                                                                 : Commands{};
}

Commands Supervisor::node_lost(Instant now, int node, const std::vector<int>& ranks) {
  ready_.erase(node);
  const bool idle =
      state_ == State::kIdle || state_ == State::kGathering || state_ == State::kBackoff || done();
  std::vector<int> died;
  for (const int rank : ranks)
    if (alive_.erase(rank) == 1) died.push_back(rank);
  if (idle || died.empty()) return {};
  if (state_ != State::kKilling) {
    failed_ = true;
    if (!first_rank_) {
      first_rank_ = died.front();
      first_node_ = node;
    }
  }
  return alive_.empty() ? all_gone(now) : kill(now);
}

Commands Supervisor::gathering_timed_out() {
  std::string missing;
  for (int node = 0; node < options_.num_nodes; ++node)
    if (!ready_.contains(node)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", node);
  return finish(ExitCode::kHang,
                fmt::format("node {} did not come within {} s, and no spare took its place",
                            missing,
                            options_.join_timeout.count() / 1000));
}

Commands Supervisor::worker_stalled(Instant now, int rank) {
  if (state_ != State::kRunning && state_ != State::kSettling) return {};
  failed_ = hung_ = true;
  if (!first_rank_) first_rank_ = rank;
  return kill(now);
}

Commands Supervisor::abort(Instant now, ExitCode code, const std::string& reason) {
  if (state_ == State::kDone) return {};
  if (!final_code_) {
    final_code_ = code;
    final_reason_ = reason;
  }
  return alive_.empty() ? finish(*final_code_, final_reason_) : kill(now);
}

Commands Supervisor::tick(Instant now) {
  if (!deadline_ || now < *deadline_) return {};
  switch (state_) {
    case State::kRunning:
      if (!stopping_) failed_ = hung_ = true;
      return kill(now);
    case State::kSettling: hung_ = true; return kill(now);
    case State::kBackoff: return start_workers(now);
    case State::kGathering: return gathering_timed_out();
    case State::kKilling:
      return finish(ExitCode::kHang,
                    fmt::format("{} worker(s) did not die within {} s of SIGKILL: an uninterruptible system "
                                "call; this node needs attention",
                                alive_.size(),
                                options_.kill_limit.count() / 1000));
    case State::kIdle:
    case State::kDone: return {};
  }
  return {};
}

void Supervisor::step_finished(std::int64_t step) {
  best_step_ = std::max(best_step_, step);
}

void Supervisor::checkpoint_committed(std::int64_t step) {
  committed_step_ = std::max(committed_step_, step);
}

Commands Supervisor::kill(Instant now) {
  if (state_ == State::kKilling) return {};
  state_ = State::kKilling;
  deadline_ = now + options_.kill_limit;
  return {KillWorkers{}};
}

Commands Supervisor::all_gone(Instant now) {
  deadline_.reset();
  if (failed_ || final_code_) return after_failure(now);
  // A kill without a failure is the end of a stop that took too long, or was hurried.
  if (stopping_ && (any_stopped_ || state_ == State::kKilling)) return finish_stopped();
  return finish(ExitCode::kDone, "done");
}

Commands Supervisor::after_failure(Instant now) {
  const bool progress = best_step_ > best_step_at_failure_;
  best_step_at_failure_ = best_step_;
  without_progress_ = progress ? 0 : without_progress_ + 1;
  failures_at_step_ = progress ? 1 : failures_at_step_ + 1;
  if (!first_rank_) hung_ = true;

  IncarnationFailed failure{first_rank_, first_node_, false, restarts_, Milliseconds{0}};
  const auto end = [&](const Commands& last) {
    Commands commands{failure};
    commands.insert(commands.end(), last.begin(), last.end());
    return commands;
  };
  if (final_code_) return end(finish(*final_code_, final_reason_));
  if (stopping_) return end(finish_stopped());
  if (without_progress_ > options_.no_progress_limit)
    return end(
        finish(hung_ ? ExitCode::kHang : ExitCode::kNoProgress,
               fmt::format("{} restarts in a row without a new step (resilience.no_progress_limit: {}); "
                           "last finished step {}",
                           without_progress_ - 1,
                           options_.no_progress_limit,
                           best_step_)));
  if (restarts_ >= options_.max_restarts)
    return end(finish(
        ExitCode::kRestartBudget,
        fmt::format("the budget of {} restarts is spent (resilience.max_restarts)", options_.max_restarts)));
  failure.restarts = true;
  failure.num_restarts = ++restarts_;
  ++incarnation_;
  // The first restart costs nothing; a job that falls over again and again is slowed down.
  if (without_progress_ > 1) {
    const int doublings = std::min(without_progress_ - 2, 20);
    failure.delay = std::min(options_.backoff_max, Milliseconds{options_.backoff_first.count() << doublings});
  }
  if (failure.delay.count() == 0) return end(start_workers(now));
  state_ = State::kBackoff;
  deadline_ = now + failure.delay;
  return {failure};
}

Commands Supervisor::finish_stopped() {
  if (committed_step_ >= best_step_)
    return finish(ExitCode::kPreempted, fmt::format("stopped; step {} is committed", committed_step_));
  if (committed_step_ < 0)
    return finish(ExitCode::kPreemptedUnsaved,
                  fmt::format("stopped at step {} without any checkpoint", best_step_));
  return finish(ExitCode::kPreemptedUnsaved,
                fmt::format("stopped; step {} was finished, but the newest checkpoint is of step {}",
                            best_step_,
                            committed_step_));
}

Commands Supervisor::finish(ExitCode code, const std::string& reason) {
  state_ = State::kDone;
  deadline_.reset();
  return {Finish{code, reason}};
}

}  // namespace llmtrain
