#include <fmt/format.h>

#include "llmtrain/schedule/flow.hpp"

#include "check_parts.hpp"

// A link delivers in order. If its receiver takes messages in another order than its sender sends them, it
// would wait for one that lies behind another: in a real run, a hang or a swap of micro-batches.
namespace llmtrain {
namespace {

const Action& action_at(const Schedule& schedule, int stage, int index) {
  return schedule.program(stage)[static_cast<std::size_t>(index)];
}

// The virtual stage whose action takes what `action` of the link's sender makes.
int receiving_virtual_stage(const Schedule& schedule, const Link& link, const Action& action) {
  return schedule.map.virtual_stage(*destination_of(schedule.map, link.from, action));
}

// Is message k of the sender the one that the receiver takes as its k-th?
bool agree(const Schedule& schedule, const Link& link, int sent, int taken) {
  const Action& maker = action_at(schedule, link.from, sent);
  const Action& taker = action_at(schedule, link.to, taken);
  return maker.micro_batch == taker.micro_batch &&
         receiving_virtual_stage(schedule, link, maker) == schedule.map.virtual_stage({link.to, taker.chunk});
}

}  // namespace

Problems check_links(const Schedule& schedule, const PlaceNamer& place) {
  Problems problems;
  for (const auto& [link, traffic] : link_traffic(schedule)) {
    for (std::size_t k = 0; k < traffic.sent.size() && problems.size() < kMaxProblems; ++k) {
      if (agree(schedule, link, traffic.sent[k], traffic.taken[k])) continue;
      problems.push_back(
          fmt::format("{}: out of order: the next {} from stage {} to stage {} is that of {}; messages keep "
                      "their order",
                      place(link.to, traffic.taken[k]),
                      link.payload == Payload::kActivation ? "activation" : "gradient",
                      link.from,
                      link.to,
                      place(link.from, traffic.sent[k])));
      break;  // what follows on this link is a consequence
    }
  }
  return problems;
}

}  // namespace llmtrain
