#pragma once

#include <cstddef>

#include "llmtrain/shm/group.hpp"

// Messages between two ranks of a group, in order per direction.
//
// A message of up to two lane chunks is buffered: send returns without the receiver. A longer one
// passes while the receiver takes it. The receiver states the size; another one is an error there.
namespace llmtrain {

Status shm_send(ShmGroup& group, const void* data, std::size_t bytes, int to);
Status shm_recv(ShmGroup& group, void* data, std::size_t bytes, int from);
// Both at once, piece by piece: ranks of a ring may all call it together, whatever the sizes.
Status shm_send_recv(ShmGroup& group,
                     const void* out,
                     std::size_t out_bytes,
                     int to,
                     void* in,
                     std::size_t in_bytes,
                     int from);

}  // namespace llmtrain
