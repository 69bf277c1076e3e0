#pragma once

#include <cstddef>

#include "llmtrain/shm/group.hpp"
#include "llmtrain/shm/reduce.hpp"

// The collective verbs on bytes in shared memory.
//
// Every rank of the group calls the same verb with the same sizes; a disagreement is an error on all
// of them, not a hang. Results are bit-equal on all ranks and in all runs: reductions go in rank order.
// Data of any size, 0 included, passes in chunks through the ranks' two buffers; nothing is allocated.
namespace llmtrain {

Status shm_barrier(ShmGroup& group);
Status shm_all_reduce(ShmGroup& group, void* inout, std::size_t count, ElementType type, ReduceOp op);
// in: size x count elements; out: the reduced part of this rank, count elements.
Status shm_reduce_scatter(
    ShmGroup& group, const void* in, void* out, std::size_t count, ElementType type, ReduceOp op);
// in: bytes; out: size x bytes, rank r's input at r x bytes. `in` may be its own place in `out`.
Status shm_all_gather(ShmGroup& group, const void* in, void* out, std::size_t bytes);
// in, out: size x bytes; part r of `in` goes to rank r, part r of `out` comes from rank r. No overlap.
Status shm_all_to_all(ShmGroup& group, const void* in, void* out, std::size_t bytes);
Status shm_broadcast(ShmGroup& group, void* inout, std::size_t bytes, int root);

}  // namespace llmtrain
