#include "llmtrain/schedule/check.hpp"

#include <fmt/format.h>

#include "check_parts.hpp"

namespace llmtrain {

PlaceNamer by_action(const Schedule& schedule) {
  return [&schedule](int stage, int index) {
    if (index < 0) return fmt::format("stage {}", stage);
    const Action& action = schedule.program(stage)[static_cast<std::size_t>(index)];
    const bool known = action.chunk >= 0 && action.chunk < schedule.map.num_chunks();
    return fmt::format(
        "stage {}, action {} ({})",
        stage,
        index,
        known ? schedule.notation(stage, action)
              : fmt::format("{}{} on chunk {}", letter(action.kind), action.micro_batch, action.chunk));
  };
}

std::vector<std::string> check(const Schedule& schedule) {
  return check(schedule, by_action(schedule));
}

std::vector<std::string> check(const Schedule& schedule, const PlaceNamer& place) {
  if (static_cast<int>(schedule.programs.size()) != schedule.num_stages())
    return {fmt::format("{} programs for {} stages", schedule.programs.size(), schedule.num_stages())};
  for (const auto& part : {check_range, check_complete, check_links, check_progress})
    if (Problems problems = part(schedule, place); !problems.empty()) return problems;
  return {};
}

Problems check_range(const Schedule& schedule, const PlaceNamer& place) {
  Problems problems;
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    const auto& program = schedule.program(stage);
    for (int index = 0; index < static_cast<int>(program.size()) && problems.size() < kMaxProblems; ++index) {
      const Action& action = program[static_cast<std::size_t>(index)];
      if (action.chunk < 0 || action.chunk >= schedule.map.num_chunks())
        problems.push_back(
            fmt::format("{}: a stage has {} chunks", place(stage, index), schedule.map.num_chunks()));
      else if (action.micro_batch < 0 || action.micro_batch >= schedule.num_micro_batches)
        problems.push_back(
            fmt::format("{}: there are {} micro-batches", place(stage, index), schedule.num_micro_batches));
    }
  }
  return problems;
}

}  // namespace llmtrain
