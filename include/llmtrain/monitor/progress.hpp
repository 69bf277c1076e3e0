#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "llmtrain/monitor/events.hpp"

// How far a run is and how long it still needs: pure arithmetic over its events.
//
// The pace is wall time per step over the last steps of this incarnation only (evaluation and checkpoints
// included), so that a resume neither counts the steps before it nor the time in between.
namespace llmtrain {

class Progress {
 public:
  void on(const Event& event);

  std::int64_t step() const { return step_; }
  std::int64_t total_steps() const { return total_steps_; }
  double fraction() const;  // 0 .. 1
  std::optional<double> seconds_per_step() const;
  std::optional<double> seconds_left() const;  // absent until a step was seen or the end is unknown

 private:
  struct Mark {
    std::int64_t step;
    double time;
  };

  std::int64_t step_ = 0;
  std::int64_t total_steps_ = 0;
  int incarnation_ = -1;
  std::deque<Mark> window_;             // ends of the last steps
  std::optional<double> last_step_ms_;  // pace while the window has one mark only
};

}  // namespace llmtrain
