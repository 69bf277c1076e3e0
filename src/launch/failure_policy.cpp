#include "llmtrain/launch/failure_policy.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace llmtrain {
namespace {

constexpr int kMostForMemory = 2;  // kills for lack of memory in a row without a new step

struct Rule {
  std::string_view name;  // of the class
  FailureAction action;
  ExitCode stop_code;
};

Rule rule_for(const OnFailureSpec& table, const FailureEvent& event) {
  if (event.final_code == ExitCode::kData) return {"data", table.data, ExitCode::kData};
  if (event.final_code == ExitCode::kDiverged) return {"divergence", table.divergence, ExitCode::kDiverged};
  if (event.final_code) return {"", FailureAction::kStop, *event.final_code};
  const Rule crash{"crash", table.crash, ExitCode::kRestartBudget};
  const Rule hang{"hang", table.hang, ExitCode::kHang};
  switch (event.kind) {
    case FailureKind::kExit:
    case FailureKind::kSignal:
    case FailureKind::kDeterministicCrash:
    case FailureKind::kMismatchedCall: return crash;
    case FailureKind::kOutOfMemory: return {"oom", table.oom, ExitCode::kRestartBudget};
    case FailureKind::kHangCompute:
    case FailureKind::kHangInput:
    case FailureKind::kHangCollective:
    case FailureKind::kMissingCall: return hang;
    case FailureKind::kStopped: return {"stopped_worker", table.stopped_worker, ExitCode::kHang};
    case FailureKind::kNodeLost: return {"node_lost", table.node_lost, ExitCode::kRestartBudget};
    case FailureKind::kTransport: return {"transport", table.transport, ExitCode::kHang};
    case FailureKind::kUnknown: break;
  }
  return event.hung ? hang : crash;
}

// What a checkpoint brings back with it, an older one may not.
bool may_come_with_checkpoint(const FailureEvent& event) {
  switch (event.kind) {
    case FailureKind::kNodeLost:
    case FailureKind::kTransport:
    case FailureKind::kStopped:
    case FailureKind::kOutOfMemory: return false;
    default: return !event.before_load;
  }
}

}  // namespace

int FailurePolicy::crashes_at(std::int64_t last_step) const {
  return best_step_ && last_step <= *best_step_ ? without_progress_ + 1 : 1;
}

FailureDecision FailurePolicy::stop(ExitCode code, std::string reason) const {
  FailureDecision decision;
  decision.action = FailureAction::kStop;
  decision.code = code;
  decision.reason = std::move(reason);
  decision.num_restarts = num_restarts();
  decision.in_a_row = without_progress_;
  return decision;
}

FailureDecision FailurePolicy::decide(const FailureEvent& event) {
  without_progress_ = crashes_at(event.last_step);
  best_step_ = std::max(best_step_.value_or(event.last_step), event.last_step);
  if (without_progress_ == 1 || event.kind != FailureKind::kOutOfMemory) for_memory_ = 0;
  if (event.kind == FailureKind::kOutOfMemory) ++for_memory_;
  const Rule rule = rule_for(options_.on_failure, event);
  if (rule.action == FailureAction::kStop) {
    if (event.final_code) return stop(rule.stop_code, {});
    return stop(rule.stop_code, fmt::format("resilience.on_failure.{} is stop", rule.name));
  }
  // What did not fit will not fit the next time either: one more try finds out whether that was chance.
  if (for_memory_ >= kMostForMemory)
    return stop(ExitCode::kNoProgress,
                fmt::format("killed for lack of memory {} times in a row without a new step; last finished "
                            "step {}",
                            for_memory_,
                            *best_step_));
  if (without_progress_ > options_.no_progress_limit)
    return stop(
        rule.stop_code == ExitCode::kHang ? ExitCode::kHang : ExitCode::kNoProgress,
        fmt::format("{} restarts in a row without a new step (resilience.no_progress_limit: {}); last "
                    "finished step {}",
                    without_progress_ - 1,
                    options_.no_progress_limit,
                    *best_step_));
  if (auto spent = spend(event.at)) return std::move(*spent);
  const int rollback = without_progress_ >= 2 && may_come_with_checkpoint(event) ? 1 : 0;
  return {rule.action, ExitCode::kDone, {}, rollback, num_restarts(), without_progress_};
}

FailureDecision FailurePolicy::leader_lost(Instant now) {
  if (options_.on_failure.node_lost == FailureAction::kStop)
    return stop(ExitCode::kRestartBudget, "resilience.on_failure.node_lost is stop");
  if (auto spent = spend(now)) return std::move(*spent);
  return {FailureAction::kRestart, ExitCode::kDone, {}, 0, num_restarts(), without_progress_};
}

std::optional<FailureDecision> FailurePolicy::spend(Instant now) {
  if (options_.restart_window.count() > 0)
    while (!restarts_.empty() && now - restarts_.front() > options_.restart_window) restarts_.pop_front();
  if (num_restarts() >= options_.max_restarts)
    return stop(ExitCode::kRestartBudget,
                options_.restart_window.count() > 0
                    ? fmt::format("the budget of {} restarts within {} s is spent (resilience.max_restarts, "
                                  "resilience.restart_window_s)",
                                  options_.max_restarts,
                                  options_.restart_window.count() / 1000)
                    : fmt::format("the budget of {} restarts is spent (resilience.max_restarts)",
                                  options_.max_restarts));
  restarts_.push_back(now);
  return std::nullopt;
}

void FailurePolicy::take_over(Instant now, const RestartHistory& history) {
  restarts_.clear();
  for (const Milliseconds age : history.ages) restarts_.push_back(now - age);
  best_step_ = history.best_step;
  without_progress_ = history.without_progress;
}

RestartHistory FailurePolicy::history(Instant now) const {
  RestartHistory history{{}, best_step_, without_progress_};
  for (const Instant at : restarts_) history.ages.push_back(now - at);
  return history;
}

}  // namespace llmtrain
