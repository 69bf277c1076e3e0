#pragma once

#include <string>
#include <vector>

#include "llmtrain/schedule/check.hpp"

// The parts of check(), in the order in which each presumes the ones before.
namespace llmtrain {

using Problems = std::vector<std::string>;

// Every action names a chunk and a micro-batch that exist.
Problems check_range(const Schedule& schedule, const PlaceNamer& place);
// Everything exactly once, and in an order that one stage alone can see to be right.
Problems check_complete(const Schedule& schedule, const PlaceNamer& place);
// Senders and receivers agree on the order of messages.
Problems check_links(const Schedule& schedule, const PlaceNamer& place);
// Nobody waits for ever.
Problems check_progress(const Schedule& schedule, const PlaceNamer& place);

}  // namespace llmtrain
