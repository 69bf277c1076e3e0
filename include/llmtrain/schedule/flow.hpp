#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "llmtrain/schedule/schedule.hpp"

// What travels between the actions of a schedule, and from where to where.
//
// A forward takes the activation of the virtual stage before and hands its own to the one after; B and I take
// and hand on gradients in the other direction; W takes what its I left behind. Between two stages messages
// travel on links, one for each (sender, receiver, payload), and keep their order in it: that is the contract
// that the check holds a schedule to and that an executor may rely on. What the executor owes in return: a
// send never waits for its receiver.
namespace llmtrain {

enum class Payload { kActivation, kGradient };

// What the action takes and hands on; W, which touches no other virtual stage, has neither end.
constexpr Payload payload_of(ActionKind kind) {
  return kind == ActionKind::kForward ? Payload::kActivation : Payload::kGradient;
}

// Where the action's input is made. Absent: from the batch, the loss, or (W) the chunk's own I. A site on the
// same stage means that nothing is sent: the tensor stays where it is.
std::optional<Site> source_of(const StageMap& map, int stage, const Action& action);
// Where its output goes; absent: the loss, the end of the backward, or (W) the gradient buffers.
std::optional<Site> destination_of(const StageMap& map, int stage, const Action& action);

struct Link {
  int from = 0;
  int to = 0;
  Payload payload = Payload::kActivation;
  friend constexpr bool operator==(const Link&, const Link&) = default;
  friend constexpr bool operator<(const Link& a, const Link& b) {
    return std::tie(a.from, a.to, a.payload) < std::tie(b.from, b.to, b.payload);
  }
};

// Both ends of a link as indexes into the programs of its stages: the k-th message is sent after action
// sent[k] of `from` and taken by action taken[k] of `to`.
struct LinkTraffic {
  std::vector<int> sent;
  std::vector<int> taken;
};

// Every message that passes between two stages in one step.
std::map<Link, LinkTraffic> link_traffic(const Schedule& schedule);

}  // namespace llmtrain
