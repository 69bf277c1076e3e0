#include "llmtrain/monitor/progress.hpp"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

// Long enough that one checkpoint does not move the estimate, short enough to follow a change of pace.
constexpr std::size_t kWindowSteps = 200;

}  // namespace

void Progress::on(const Event& event) {
  if (const auto* started = std::get_if<RunStarted>(&event.body)) {
    step_ = started->first_step;
    total_steps_ = started->total_steps;
    window_.clear();
    last_step_ms_.reset();
    incarnation_ = event.incarnation;
    return;
  }
  const auto* report = std::get_if<StepReport>(&event.body);
  if (!report) return;
  const bool continues =
      event.incarnation == incarnation_ && (window_.empty() || report->step > window_.back().step);
  if (!continues) window_.clear();
  incarnation_ = event.incarnation;
  step_ = report->step;
  last_step_ms_ = report->step_ms;
  window_.push_back({report->step, event.time});
  if (window_.size() > kWindowSteps + 1) window_.pop_front();
}

double Progress::fraction() const {
  if (total_steps_ <= 0) return 0;
  return std::clamp(static_cast<double>(step_) / static_cast<double>(total_steps_), 0.0, 1.0);
}

std::optional<double> Progress::seconds_per_step() const {
  if (window_.size() >= 2) {
    const Mark& first = window_.front();
    const Mark& last = window_.back();
    const double pace = (last.time - first.time) / static_cast<double>(last.step - first.step);
    if (std::isfinite(pace) && pace >= 0) return pace;  // a clock that was set back proves nothing
  }
  if (last_step_ms_ && std::isfinite(*last_step_ms_)) return *last_step_ms_ / 1000;
  return std::nullopt;
}

std::optional<double> Progress::seconds_left() const {
  const auto pace = seconds_per_step();
  if (!pace || total_steps_ <= 0) return std::nullopt;
  return *pace * static_cast<double>(std::max<std::int64_t>(total_steps_ - step_, 0));
}

}  // namespace llmtrain
