#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/schedule/flow.hpp"

#include "check_parts.hpp"
#include "play.hpp"

// Plays the schedule until it is done or stuck. Where it is stuck, following who waits for whom leads into a
// circle; the circle is the whole explanation.
namespace llmtrain {
namespace {

struct Stuck {
  int index = 0;      // the action that cannot start
  int waits_for = 0;  // the stage that has yet to make its input
  std::string maker;  // the action there, in CSV notation
};

Stuck stuck_at(const Schedule& schedule, int stage, int index) {
  const Action& action = schedule.program(stage)[static_cast<std::size_t>(index)];
  // Only an input from another virtual stage can be late: the order on the stage itself was checked before.
  const Site source = *source_of(schedule.map, stage, action);
  const int virtual_stage = schedule.map.virtual_stage(source);
  const ActionKind kind = action.kind == ActionKind::kForward ? ActionKind::kForward : ActionKind::kBackward;
  std::string maker = notation(virtual_stage, kind, action.micro_batch);
  if (kind == ActionKind::kBackward)
    for (const Action& other : schedule.program(source.stage))
      if (makes_input_gradient(other.kind) && other.chunk == source.chunk &&
          other.micro_batch == action.micro_batch)
        maker = schedule.notation(source.stage, other);
  return {index, source.stage, std::move(maker)};
}

}  // namespace

Problems check_progress(const Schedule& schedule, const PlaceNamer& place) {
  const std::vector<std::vector<TimedAction>> played = play(schedule, Costs{});
  const auto next = [&](int stage) {
    return static_cast<int>(played[static_cast<std::size_t>(stage)].size());
  };
  int stage = 0;
  while (stage < schedule.num_stages() && next(stage) == static_cast<int>(schedule.program(stage).size()))
    ++stage;
  if (stage == schedule.num_stages()) return {};

  std::vector<int> visited;  // stages, each waiting for the one after it
  while (std::find(visited.begin(), visited.end(), stage) == visited.end()) {
    visited.push_back(stage);
    stage = stuck_at(schedule, stage, next(stage)).waits_for;
  }
  visited.erase(visited.begin(), std::find(visited.begin(), visited.end(), stage));
  std::vector<std::string> circle;
  for (const int waiting : visited) {
    const Stuck stuck = stuck_at(schedule, waiting, next(waiting));
    circle.push_back(fmt::format("{} waits for {}", place(waiting, stuck.index), stuck.maker));
  }
  return {fmt::format("deadlock: {}", fmt::join(circle, ", and "))};
}

}  // namespace llmtrain
