#include "llmtrain/report/time_ledger.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "llmtrain/report/lineage.hpp"

namespace llmtrain {
namespace {

// Seconds. A start that seems longer was dated by another clock, of a file server perhaps.
constexpr double kLongestStart = 6 * 3600;

}  // namespace

std::string_view name(TimeClass which) {
  constexpr std::array<std::string_view, kNumTimeClasses> kNames = {
      "productive", "replayed", "startup", "evaluation", "saves", "detection", "restart", "down", "unknown"};
  return kNames[static_cast<std::size_t>(which)];
}

std::string_view description(TimeClass which) {
  constexpr std::array<std::string_view, kNumTimeClasses> kNames = {"steps that count",
                                                                    "lost and replayed steps",
                                                                    "start-up and end",
                                                                    "evaluation",
                                                                    "saves",
                                                                    "detection",
                                                                    "restart",
                                                                    "down between launches",
                                                                    "unknown"};
  return kNames[static_cast<std::size_t>(which)];
}

double LedgerTotals::wall() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double LedgerTotals::effective_ratio() const {
  const double all = wall();
  return all > 0 ? of(TimeClass::kProductive) / all : 0;
}

TimeLedger::TimeLedger(std::vector<std::int64_t> resume_steps, std::map<int, double> started_at)
    : resume_steps_(std::move(resume_steps)), started_at_(std::move(started_at)) {
  std::sort(resume_steps_.begin(), resume_steps_.end());
  resume_steps_.erase(std::unique(resume_steps_.begin(), resume_steps_.end()), resume_steps_.end());
}

double TimeLedger::take(double time) {
  const double gap = std::max(0.0, time - last_);
  last_ = newest_ = time;
  return gap;
}

TimeClass TimeLedger::waiting() const {
  switch (state_) {
    case State::kBefore:
    case State::kOver: return TimeClass::kDown;
    case State::kStarting: return TimeClass::kStartup;
    case State::kFailed: return TimeClass::kRestart;
    case State::kRunning: return TimeClass::kUnknown;
  }
  return TimeClass::kUnknown;
}

// A record of a new incarnation that nobody announced as a restart belongs to a new launch.
void TimeLedger::enter(int incarnation, double time) {
  if (state_ != State::kBefore && incarnation == incarnation_) return;
  const bool very_first = state_ == State::kBefore;
  incarnation_ = incarnation;
  if (!very_first && state_ == State::kFailed) return;
  const auto known = started_at_.find(incarnation);
  const bool plausible = known != started_at_.end() && known->second <= time &&
                         known->second > time - kLongestStart && (very_first || known->second >= last_);
  if (very_first)
    last_ = newest_ = plausible ? known->second : time;
  else
    add(TimeClass::kDown, take(plausible ? known->second : time));
  state_ = State::kStarting;
}

void TimeLedger::step(int incarnation, double time, std::int64_t step, std::optional<double> seconds) {
  enter(incarnation, time);
  const double gap = take(time);
  const double claimed = seconds && *seconds >= 0 ? *seconds : state_ == State::kRunning ? gap : 0;
  const double inside = std::min(gap, claimed);
  const bool save_before = std::exchange(after_save_, false) && state_ == State::kRunning;
  add(save_before ? TimeClass::kSaves : waiting(), gap - inside);
  state_ = State::kRunning;
  typical_step_ = claimed;
  const auto resume = std::lower_bound(resume_steps_.begin(), resume_steps_.end(), step);
  Steps& steps = steps_[{incarnation, resume == resume_steps_.end() ? kAllSteps : *resume}];
  steps.seconds += inside;
  ++steps.count;
}

void TimeLedger::evaluated(int incarnation, double time) {
  enter(incarnation, time);
  const double gap = take(time);
  after_save_ = false;
  add(state_ == State::kRunning ? TimeClass::kEvaluation : waiting(), gap);
}

void TimeLedger::saved(int incarnation, double time, double seconds) {
  enter(incarnation, time);
  const double gap = take(time);
  const double inside = std::clamp(seconds, 0.0, gap);
  add(TimeClass::kSaves, inside);
  add(waiting(), gap - inside);
  after_save_ = state_ == State::kRunning;
}

std::optional<double> TimeLedger::failed(int incarnation, double time) {
  enter(incarnation, time);
  if (state_ == State::kFailed) {  // a later sign of the same failure
    newest_ = std::max(newest_, time);
    return std::nullopt;
  }
  const double gap = take(time);
  std::optional<double> unnoticed;
  if (state_ == State::kRunning) {
    const double cut_off = std::min(gap, typical_step_);
    add(TimeClass::kReplayed, cut_off);
    add(TimeClass::kDetection, gap - cut_off);
    unnoticed = gap - cut_off;
  } else {
    add(waiting(), gap);
  }
  state_ = State::kFailed;
  after_save_ = false;
  return unnoticed;
}

void TimeLedger::restarting(int incarnation, double time) {
  enter(incarnation, time);
  add(state_ == State::kFailed ? TimeClass::kRestart : waiting(), take(time));
  state_ = State::kFailed;
}

void TimeLedger::finished(int incarnation, double time) {
  enter(incarnation, time);
  add(state_ == State::kRunning ? TimeClass::kStartup : waiting(), take(time));
  state_ = State::kOver;
}

void TimeLedger::seen(int incarnation, double time) {
  enter(incarnation, time);
  newest_ = std::max(newest_, time);
}

LedgerTotals TimeLedger::totals(const std::map<int, std::int64_t>& accepted_until) const {
  LedgerTotals totals;
  totals.seconds = seconds_;
  for (const auto& [key, steps] : steps_) {
    const auto limit = accepted_until.find(key.first);
    const bool counts = limit != accepted_until.end() && key.second <= limit->second;
    totals.seconds[static_cast<std::size_t>(counts ? TimeClass::kProductive : TimeClass::kReplayed)] +=
        steps.seconds;
    (counts ? totals.productive_steps : totals.replayed_steps) += steps.count;
  }
  totals.seconds[static_cast<std::size_t>(waiting())] += std::max(0.0, newest_ - last_);
  return totals;
}

std::pair<std::int64_t, double> TimeLedger::productive_of(int incarnation,
                                                          std::int64_t accepted_until) const {
  std::pair<std::int64_t, double> sum{0, 0};
  for (auto it = steps_.lower_bound({incarnation, 0}); it != steps_.end() && it->first.first == incarnation;
       ++it)
    if (it->first.second <= accepted_until) {
      sum.first += it->second.count;
      sum.second += it->second.seconds;
    }
  return sum;
}

}  // namespace llmtrain
