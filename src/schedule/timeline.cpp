#include "llmtrain/schedule/timeline.hpp"

#include <algorithm>

#include "llmtrain/core/check.hpp"

#include "play.hpp"

namespace llmtrain {

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  Timeline timeline{play(schedule, costs), 0};
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    const auto& actions = timeline.stages[static_cast<std::size_t>(stage)];
    LLMTRAIN_CHECK(actions.size() == schedule.program(stage).size(),
                   "{}: stage {} is stuck after {} of {} actions",
                   schedule.name,
                   stage,
                   actions.size(),
                   schedule.program(stage).size());
    if (!actions.empty()) timeline.makespan = std::max(timeline.makespan, actions.back().end);
  }
  return timeline;
}

std::int64_t Timeline::idle(int stage) const {
  std::int64_t busy = 0;
  for (const TimedAction& timed : stages[static_cast<std::size_t>(stage)]) busy += timed.end - timed.begin;
  return makespan - busy;
}

std::int64_t Timeline::idle() const {
  std::int64_t sum = 0;
  for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage) sum += idle(stage);
  return sum;
}

double Timeline::bubble_share() const {
  const std::int64_t whole = makespan * static_cast<std::int64_t>(stages.size());
  return whole == 0 ? 0.0 : static_cast<double>(idle()) / static_cast<double>(whole);
}

}  // namespace llmtrain
