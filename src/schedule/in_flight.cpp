#include "llmtrain/schedule/in_flight.hpp"

#include <algorithm>
#include <numeric>

namespace llmtrain {
namespace {

InFlight in_flight(const std::vector<Action>& program, int num_chunks) {
  InFlight most;
  most.by_chunk.resize(static_cast<std::size_t>(num_chunks));
  std::vector<int> kept = most.by_chunk;
  int total = 0, deferred = 0;
  for (const Action& action : program) {
    int& on_chunk = kept[static_cast<std::size_t>(action.chunk)];
    if (action.kind == ActionKind::kForward) ++on_chunk, ++total;
    if (makes_weight_gradient(action.kind)) --on_chunk, --total;
    if (action.kind == ActionKind::kInputGradient) ++deferred;
    if (action.kind == ActionKind::kWeightGradient) --deferred;
    most.peak_deferred = std::max(most.peak_deferred, deferred);
    if (total <= most.peak) continue;
    most.peak = total;
    most.by_chunk = kept;
  }
  return most;
}

}  // namespace

std::vector<InFlight> in_flight(const Schedule& schedule) {
  std::vector<InFlight> stages;
  for (const auto& program : schedule.programs)
    stages.push_back(in_flight(program, schedule.map.num_chunks()));
  return stages;
}

}  // namespace llmtrain
