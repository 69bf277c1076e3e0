#pragma once

#include "nccl_group.hpp"

// Channels between neighbours of the ring that a group's ranks form, one for each direction, so that messages
// wait for no collective and for no other message. It knows no verbs.
namespace llmtrain {

// Null where there is no such neighbour.
struct NcclLanes {
  NcclChannel* to_next = nullptr;
  NcclChannel* from_next = nullptr;
  NcclChannel* to_previous = nullptr;
  NcclChannel* from_previous = nullptr;
};

// Collective over the group. The lanes live as long as it.
NcclLanes connect_lanes(NcclGroup& group);

}  // namespace llmtrain
