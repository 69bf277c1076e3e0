#include "llmtrain/schedule/flow.hpp"

namespace llmtrain {
namespace {

// The site `steps` virtual stages further, if the model reaches that far.
std::optional<Site> neighbour(const StageMap& map, int stage, int chunk, int steps) {
  const int virtual_stage = map.virtual_stage({stage, chunk}) + steps;
  if (virtual_stage < 0 || virtual_stage >= map.num_virtual_stages()) return std::nullopt;
  return map.site(virtual_stage);
}

// +1 where outputs go towards the loss, -1 where they go back.
int direction(ActionKind kind) {
  return payload_of(kind) == Payload::kActivation ? 1 : -1;
}

}  // namespace

std::optional<Site> source_of(const StageMap& map, int stage, const Action& action) {
  if (action.kind == ActionKind::kWeightGradient) return std::nullopt;
  return neighbour(map, stage, action.chunk, -direction(action.kind));
}

std::optional<Site> destination_of(const StageMap& map, int stage, const Action& action) {
  if (action.kind == ActionKind::kWeightGradient) return std::nullopt;
  return neighbour(map, stage, action.chunk, direction(action.kind));
}

std::map<Link, LinkTraffic> link_traffic(const Schedule& schedule) {
  std::map<Link, LinkTraffic> traffic;
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    const auto& program = schedule.program(stage);
    for (int index = 0; index < static_cast<int>(program.size()); ++index) {
      const Action& action = program[static_cast<std::size_t>(index)];
      const Payload payload = payload_of(action.kind);
      if (const auto source = source_of(schedule.map, stage, action); source && source->stage != stage)
        traffic[{source->stage, stage, payload}].taken.push_back(index);
      if (const auto target = destination_of(schedule.map, stage, action); target && target->stage != stage)
        traffic[{stage, target->stage, payload}].sent.push_back(index);
    }
  }
  return traffic;
}

}  // namespace llmtrain
