#include "play.hpp"

#include <algorithm>

#include "llmtrain/schedule/flow.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kNotYet = -1;

class Player {
 public:
  Player(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule),
        costs_(costs),
        played_(schedule.programs.size()),
        activations_(size(), kNotYet),
        gradients_(size(), kNotYet) {}

  // A stage goes on until it is stuck; what it made may wake the stages that it sends to.
  std::vector<std::vector<TimedAction>> run() {
    std::vector<int> awake;
    for (int stage = schedule_.num_stages() - 1; stage >= 0; --stage) awake.push_back(stage);
    while (!awake.empty()) {
      const int stage = awake.back();
      awake.pop_back();
      while (step(stage)) {
        const Action& done = played_[static_cast<std::size_t>(stage)].back().action;
        const auto target = destination_of(schedule_.map, stage, done);
        if (target && target->stage != stage) awake.push_back(target->stage);
      }
    }
    return std::move(played_);
  }

 private:
  std::size_t size() const {
    return static_cast<std::size_t>(schedule_.map.num_virtual_stages()) *
           static_cast<std::size_t>(schedule_.num_micro_batches);
  }

  // When the output of its payload was ready at this site, or kNotYet.
  std::int64_t& ready(Payload payload, Site site, int micro_batch) {
    const auto index = static_cast<std::size_t>(schedule_.map.virtual_stage(site)) *
                           static_cast<std::size_t>(schedule_.num_micro_batches) +
                       static_cast<std::size_t>(micro_batch);
    return payload == Payload::kActivation ? activations_[index] : gradients_[index];
  }

  // Runs the stage's next action, if there is one and its input is there.
  bool step(int stage) {
    auto& done = played_[static_cast<std::size_t>(stage)];
    const auto& program = schedule_.program(stage);
    if (done.size() == program.size()) return false;
    const Action& action = program[done.size()];
    std::int64_t begin = done.empty() ? 0 : done.back().end;
    if (const auto source = source_of(schedule_.map, stage, action)) {
      const std::int64_t input = ready(payload_of(action.kind), *source, action.micro_batch);
      if (input == kNotYet) return false;
      begin = std::max(begin, input);
    }
    const std::int64_t end = begin + costs_.of(action.kind);
    if (action.kind != ActionKind::kWeightGradient)
      ready(payload_of(action.kind), {stage, action.chunk}, action.micro_batch) = end;
    done.push_back({action, begin, end});
    return true;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::vector<std::vector<TimedAction>> played_;
  std::vector<std::int64_t> activations_;  // [virtual stage x micro-batch]
  std::vector<std::int64_t> gradients_;
};

}  // namespace

std::vector<std::vector<TimedAction>> play(const Schedule& schedule, const Costs& costs) {
  return Player(schedule, costs).run();
}

}  // namespace llmtrain
