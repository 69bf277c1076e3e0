#include "llmtrain/launch/failure_policy.hpp"

#include <array>
#include <charconv>

#include <fmt/format.h>

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 4> kActions = {"restart", "rollback", "replace_node", "stop"};

bool is_hang(FailureKind kind) {
  return kind == FailureKind::kHangCompute || kind == FailureKind::kHangInput ||
         kind == FailureKind::kHangCollective || kind == FailureKind::kStopped ||
         kind == FailureKind::kTransport || kind == FailureKind::kMissingCall;
}

std::string default_action(FailureKind kind) {
  switch (kind) {
    case FailureKind::kNodeLost: return "replace_node";
    case FailureKind::kOutOfMemory:
    case FailureKind::kMissingCall:
    case FailureKind::kMismatchedCall: return "restart:1";
    case FailureKind::kDeterministicCrash: return "rollback:2";
    default: return "restart";
  }
}

std::string class_words() {
  std::string words;
  for (int i = 0; i <= static_cast<int>(FailureKind::kUnknown); ++i)
    words += (i > 0 ? ", " : "") + std::string(to_string(static_cast<FailureKind>(i)));
  return words;
}

std::optional<int> parse_budget(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > 1'000'000)
    return std::nullopt;
  return value;
}

}  // namespace

std::string_view to_string(FailureAction action) {
  return kActions[static_cast<std::size_t>(action)];
}

Result<FailurePolicy> FailurePolicy::make(const PolicyOptions& options) {
  FailurePolicy policy(options);
  const auto add = [&](const std::string& name, const std::string& text) -> Status {
    const auto kind = failure_kind(name);
    if (!kind)
      return Error{ErrorCode::kInvalidSpec,
                   fmt::format("resilience.on_failure: \"{}\" is no class of failure", name),
                   "allowed are " + class_words()};
    const auto colon = text.find(':');
    const std::string word = text.substr(0, colon);
    Rule rule;
    bool known = false;
    for (std::size_t i = 0; i < kActions.size(); ++i)
      if (kActions[i] == word) {
        rule.action = static_cast<FailureAction>(i);
        known = true;
      }
    if (colon != std::string::npos) rule.budget = parse_budget(std::string_view(text).substr(colon + 1));
    if (!known || (colon != std::string::npos && !rule.budget))
      return Error{ErrorCode::kInvalidSpec,
                   fmt::format("resilience.on_failure.{}: \"{}\" is no action", name, text),
                   "allowed are restart, rollback, replace_node and stop, and a budget as in restart:3"};
    policy.rules_[*kind] = rule;
    return ok_status();
  };
  for (int i = 0; i <= static_cast<int>(FailureKind::kUnknown); ++i) {
    const auto kind = static_cast<FailureKind>(i);
    LLMTRAIN_TRY(add(std::string(to_string(kind)), default_action(kind)));
  }
  for (const auto& [name, text] : options.on_failure) LLMTRAIN_TRY(add(name, text));
  return policy;
}

int FailurePolicy::crashes_at(std::int64_t last_step) const {
  return best_step_ && last_step <= *best_step_ ? without_progress_ + 1 : 1;
}

FailureDecision FailurePolicy::stop(ExitCode code, std::string reason) const {
  return {FailureAction::kStop, code, std::move(reason), static_cast<int>(restarts_.size())};
}

FailureDecision FailurePolicy::decide(const FailureEvent& event) {
  without_progress_ = crashes_at(event.last_step);
  if (!best_step_ || event.last_step > *best_step_) best_step_ = event.last_step;
  const std::string name(to_string(event.kind));
  const Rule& rule = rules_.at(event.kind);
  const int times = ++used_[event.kind];
  const ExitCode hung_or = is_hang(event.kind) ? ExitCode::kHang : ExitCode::kRestartBudget;

  if (rule.action == FailureAction::kStop)
    return stop(event.kind == FailureKind::kDeterministicCrash ? ExitCode::kNoProgress : hung_or,
                fmt::format("{}: resilience.on_failure says stop", name));
  if (without_progress_ > options_.no_progress_limit)
    return stop(
        is_hang(event.kind) ? ExitCode::kHang : ExitCode::kNoProgress,
        fmt::format("{} restarts in a row without a new step (resilience.no_progress_limit: {}); last "
                    "finished step {}",
                    without_progress_ - 1,
                    options_.no_progress_limit,
                    *best_step_));
  if (rule.budget && times > *rule.budget)
    return stop(
        event.kind == FailureKind::kDeterministicCrash ? ExitCode::kNoProgress : hung_or,
        fmt::format("{} for the {}. time: resilience.on_failure allows {}", name, times, *rule.budget));

  if (options_.restart_window.count() > 0)
    while (!restarts_.empty() && event.at - restarts_.front() > options_.restart_window)
      restarts_.pop_front();
  if (static_cast<int>(restarts_.size()) >= options_.max_restarts)
    return stop(ExitCode::kRestartBudget,
                options_.restart_window.count() > 0
                    ? fmt::format("the budget of {} restarts within {} s is spent (resilience.max_restarts, "
                                  "resilience.restart_window_s)",
                                  options_.max_restarts,
                                  options_.restart_window.count() / 1000)
                    : fmt::format("the budget of {} restarts is spent (resilience.max_restarts)",
                                  options_.max_restarts));
  restarts_.push_back(event.at);
  FailureDecision decision{rule.action, ExitCode::kDone, {}, static_cast<int>(restarts_.size())};
  // What a checkpoint brings back with it, an older one may not.
  if (decision.action == FailureAction::kRestart && without_progress_ >= 2) {
    decision.action = FailureAction::kRollback;
    decision.reason = fmt::format("failure {} in a row after step {}: from one checkpoint further back",
                                  without_progress_,
                                  *best_step_);
  }
  return decision;
}

}  // namespace llmtrain
