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
      policy_({.on_failure = options.on_failure,
               .max_restarts = options.max_restarts,
               .restart_window = options.restart_window,
               .no_progress_limit = options.no_progress_limit}),
      incarnation_(options.first_incarnation),
      best_step_(std::max<std::int64_t>(options.committed_step, 0)),
      committed_step_(options.committed_step) {
  LLMTRAIN_CHECK(options.num_workers % options.num_nodes == 0, "every node has as many workers");
  if (options.num_nodes == 1) ready_ = {0};
}

Commands Supervisor::start(Instant now) {
  LLMTRAIN_CHECK(state_ == State::kIdle, "a supervisor is started once");
  away_since_ = now;
  if (options_.history) policy_.take_over(now, *options_.history);
  return start_workers(now);
}

int Supervisor::best_size() const {
  return best_of(static_cast<int>(ready_.size()));
}

// The most nodes of `ready` on which the job can run; 0 = they are too few.
int Supervisor::best_of(int ready) const {
  if (ready >= options_.num_nodes) return options_.num_nodes;
  int best = 0;
  for (const int size : options_.fewer_nodes)
    if (size <= ready) best = size;
  return best;
}

std::vector<int> Supervisor::usable_nodes(Instant now) const {
  const int size = best_size();
  if (size < options_.num_nodes && now < away_since_ + options_.shrink_grace) return {};
  return {ready_.begin(), std::next(ready_.begin(), size)};
}

// As soon as every node is there; at once when they are.
Commands Supervisor::start_workers(Instant now) {
  LLMTRAIN_CHECK(alive_.empty(), "{} workers of the last incarnation are alive", alive_.size());
  state_ = State::kGathering;
  growing_ = false;
  const bool only_spares_help = replacing_ && options_.fewer_nodes.empty();
  give_up_at_ = now + (only_spares_help ? options_.spare_grace : options_.join_timeout);
  return gather(now);
}

Commands Supervisor::gather(Instant now) {
  nodes_ = usable_nodes(now);
  if (nodes_.empty()) {
    if (now >= give_up_at_) return gathering_timed_out();
    deadline_ = give_up_at_;
    const Instant shrink_at = away_since_ + options_.shrink_grace;
    if (!options_.fewer_nodes.empty() && now < shrink_at) deadline_ = std::min(give_up_at_, shrink_at);
    return {};
  }
  state_ = State::kRunning;
  deadline_.reset();
  replacing_.reset();
  grow_at_.reset();
  for (int rank = 0; rank < per_node() * static_cast<int>(nodes_.size()); ++rank) alive_.insert(rank);
  failed_ = hung_ = any_stopped_ = false;
  first_rank_.reset();
  first_node_.reset();
  final_code_.reset();
  unkillable_.clear();
  return {StartWorkers{incarnation_, rollback_, nodes_}};
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
  if (kind == ExitClass::kStoppedSaved || kind == ExitClass::kStoppedUnsaved) {
    any_stopped_ = true;
    if (!growing_) stopping_ = true;
  }
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
  if (node < 0 || node >= options_.num_nodes || leaving_.contains(node)) return {};
  ready_.insert(node);
  if (state_ == State::kRunning && !grow_at_ && best_size() > std::ssize(nodes_))
    grow_at_ = now + options_.grow_patience;
  return state_ == State::kGathering ? gather(now) : Commands{};
}

Commands Supervisor::grow(Instant now) {
  const bool whole = alive_.size() == nodes_.size() * static_cast<std::size_t>(per_node());
  if (state_ != State::kRunning || stopping_ || failed_ || growing_ || !whole) return {};
  if (best_size() <= std::ssize(nodes_)) return {};
  growing_ = true;
  deadline_ = now + options_.stop_grace;
  return {RequestStop{}};
}

bool Supervisor::can_spare(int node) const {
  if (options_.fewer_nodes.empty() || stopping_ || state_ == State::kIdle || done()) return false;
  return best_of(static_cast<int>(ready_.size() - ready_.count(node))) > 0;
}

// Nobody waits for it to come back; a spare that takes its place is one more node later on.
Commands Supervisor::node_leaves(Instant now, int node) {
  ready_.erase(node);
  leaving_.insert(node);
  away_since_ = now - options_.shrink_grace;
  const bool takes_part = std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end();
  if (state_ != State::kRunning || !takes_part || failed_ || growing_) return {};
  growing_ = true;
  deadline_ = now + options_.stop_grace;
  return {RequestStop{}};
}

Commands Supervisor::start_again(Instant now) {
  const auto before = nodes_.size();
  ++incarnation_;
  rollback_ = 0;
  Commands commands{PlannedRestart{
      fmt::format("from {} node{} to {}", before, before == 1 ? "" : "s", std::max(best_size(), 1))}};
  const Commands start = start_workers(now);
  commands.insert(commands.end(), start.begin(), start.end());
  return commands;
}

Commands Supervisor::node_lost(Instant now, int node, const std::vector<int>& ranks) {
  leaving_.erase(node);
  if (ready_.erase(node) == 1) away_since_ = now;
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

Commands Supervisor::leader_lost(Instant now) {
  if (state_ == State::kDone) return {};
  const FailureDecision decision = policy_.leader_lost(now);
  return decision.action == FailureAction::kStop ? finish(decision.code, decision.reason) : Commands{};
}

Commands Supervisor::gathering_timed_out() {
  if (replacing_)
    return finish(ExitCode::kPreflight,
                  fmt::format("node {} was left out (resilience.on_failure, or its workers cannot be "
                              "killed), and no spare took its place",
                              *replacing_));
  std::string missing;
  for (int node = 0; node < options_.num_nodes; ++node)
    if (!ready_.contains(node)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", node);
  return finish(ExitCode::kHang,
                fmt::format("node {} did not come within {} s, and no spare took its place",
                            missing,
                            options_.join_timeout.count() / 1000));
}

Commands Supervisor::tick(Instant now) {
  if (grow_at_ && now >= *grow_at_) {
    grow_at_.reset();
    return grow(now);
  }
  if (!deadline_ || now < *deadline_) return {};
  switch (state_) {
    case State::kRunning:
      if (!stopping_ && !growing_) failed_ = hung_ = true;
      return kill(now);
    case State::kSettling: hung_ = true; return kill(now);
    case State::kBackoff: return start_workers(now);
    case State::kGathering: return gather(now);
    case State::kKilling: return leave_unkillable(now);
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
