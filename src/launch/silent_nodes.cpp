#include "llmtrain/launch/silent_nodes.hpp"

namespace llmtrain {

std::vector<int> SilentNodes::take_given_up(Instant now) {
  std::vector<int> nodes;
  std::erase_if(since_, [&](const auto& entry) {
    if (now < end_of(entry.second)) return false;
    nodes.push_back(entry.first);
    return true;
  });
  return nodes;
}

std::optional<Instant> SilentNodes::deadline() const {
  std::optional<Instant> first;
  for (const auto& [node, since] : since_) first = first ? std::min(*first, end_of(since)) : end_of(since);
  return first;
}

}  // namespace llmtrain
