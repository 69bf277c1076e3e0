#pragma once

#include <cstddef>

#include "llmtrain/shm/group.hpp"

// Messages between two ranks of a group, in order per direction.
//
// A message of up to two lane chunks is buffered: send returns without the receiver. A longer one
// passes while the receiver takes it. The receiver states the size; another one is an error there.
// Messages to one peer, and from one peer, are the business of one thread at a time.
namespace llmtrain {

Status shm_send(ShmGroup& group, const void* data, std::size_t bytes, int to);
Status shm_recv(ShmGroup& group, void* data, std::size_t bytes, int from);
// Whether shm_send would return at once; for the thread that sends there.
bool shm_send_is_buffered(const ShmGroup& group, std::size_t bytes, int to);

}  // namespace llmtrain
