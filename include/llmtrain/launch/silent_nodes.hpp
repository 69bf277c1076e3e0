#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "llmtrain/core/instant.hpp"

// Nodes behind a link that carries nothing any more: for how long the leader still counts on them.
//
// When only the control plane is cut, their workers go on training, and the steps of everybody advance:
// they are kept. Once steps stand still for longer than a step may take they are given up. A pure value: it
// reads no clock.
namespace llmtrain {

class SilentNodes {
 public:
  static constexpr Milliseconds kPatience{5'000};  // after the last step, or two steps where that is longer

  void silent(Instant now, int node) { since_.try_emplace(node, now); }
  bool is_silent(int node) const { return since_.contains(node); }
  void back(int node) { since_.erase(node); }
  // Some rank has finished a step that nobody had finished before.
  void step_finished(Instant now) { last_step_ = now; }
  // A long one is remembered for some steps.
  void step_took(Milliseconds duration) { long_step_ = std::max(duration, long_step_ * 7 / 8); }

  // Those whose time is over; they are forgotten.
  std::vector<int> take_given_up(Instant now);
  bool any() const { return !since_.empty(); }
  std::optional<Instant> deadline() const;

 private:
  Instant end_of(Instant since) const {
    return std::max(since, last_step_) + std::max(kPatience, 2 * long_step_);
  }

  std::map<int, Instant> since_;
  Instant last_step_{0};
  Milliseconds long_step_{0};
};

}  // namespace llmtrain
