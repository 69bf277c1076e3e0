#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "llmtrain/core/instant.hpp"

// When a job with an end has to stop, so that its last save is done by then.
//
// A stop waits for what runs (a step, an evaluation or a save), then comes the save, and the way out; what
// they take is known from the run. What is not known is guessed, and guesses are small beside the time that
// there is: a short allocation is there to be used. A pure value: it reads no clock.
namespace llmtrain {

class TimeLimit {
 public:
  static constexpr Milliseconds kWayOut{15'000};  // processes end, the scheduler hears of it
  static constexpr Milliseconds kUnknownSave{30'000};
  static constexpr int kGuessedShare = 10;  // a guess is at most so small a part of the time

  TimeLimit() = default;  // there is no end
  // `known_save`: of earlier launches of the run.
  TimeLimit(Instant now, Instant end, std::optional<Milliseconds> known_save)
      : end_(end),
        way_out_(guess(kWayOut, end - now)),
        unknown_save_(guess(kUnknownSave, end - now)),
        save_(known_save) {}

  void step_took(Milliseconds time) { step_ = std::max(step_, time); }
  void evaluation_took(Milliseconds time) { evaluation_ = std::max(evaluation_, time); }
  void save_took(Milliseconds time) { save_ = std::max(save_.value_or(time), time); }

  // Absent: there is no end, or the stop has been asked for already.
  std::optional<Instant> stop_at() const {
    if (!end_ || asked_) return std::nullopt;
    const Milliseconds save = save_.value_or(unknown_save_);
    return *end_ - (way_out_ + 2 * step_ + std::max(save, evaluation_) + save);
  }
  // True once, when it is time.
  bool take(Instant now) {
    const auto at = stop_at();
    return at && now >= *at && !std::exchange(asked_, true);
  }

 private:
  static Milliseconds guess(Milliseconds most, Milliseconds time) {
    return std::clamp(time / kGuessedShare, Milliseconds{0}, most);
  }

  std::optional<Instant> end_;
  Milliseconds way_out_{0};
  Milliseconds unknown_save_{0};
  Milliseconds step_{0};
  Milliseconds evaluation_{0};
  std::optional<Milliseconds> save_;
  bool asked_ = false;
};

}  // namespace llmtrain
