#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "llmtrain/core/instant.hpp"

// When a job with an end has to stop, so that its last save is done by then.
//
// A stop takes the step that runs, the save, and the way out; what they take is known from the run. A
// pure value: it reads no clock.
namespace llmtrain {

class TimeLimit {
 public:
  static constexpr Milliseconds kWayOut{15'000};  // processes end, the scheduler hears of it
  static constexpr Milliseconds kUnknownSave{30'000};

  explicit TimeLimit(std::optional<Instant> end) : end_(end) {}
  void step_took(Milliseconds time) { step_ = std::max(step_, time); }
  void save_took(Milliseconds time) { save_ = std::max(save_.value_or(time), time); }

  // Absent: there is no end, or the stop has been asked for already.
  std::optional<Instant> stop_at() const {
    if (!end_ || asked_) return std::nullopt;
    return *end_ - (kWayOut + 2 * step_ + 2 * save_.value_or(kUnknownSave));
  }
  // True once, when it is time.
  bool take(Instant now) {
    const auto at = stop_at();
    return at && now >= *at && !std::exchange(asked_, true);
  }

 private:
  std::optional<Instant> end_;
  Milliseconds step_{0};
  std::optional<Milliseconds> save_;
  bool asked_ = false;
};

}  // namespace llmtrain
