#include "nccl_lanes.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

namespace llmtrain {
namespace {

NcclChannel& connect_lane(NcclGroup& group, int from, int to) {
  const bool sends = group.options().rank == from;
  NcclChannel& lane = group.connect(fmt::format("lane/{}-{}", from, to), sends ? 0 : 1, 2);
  at::Tensor one = at::zeros({1}, at::device(at::kCUDA).dtype(at::kFloat));  // [1]
  const auto done = group.enqueue(lane, fmt::format("connection of {} to {}", from, to), {one}, [&] {
    return sends ? ncclSend(one.data_ptr(), 1, ncclFloat32, 1, lane.comm(), lane.stream())
                 : ncclRecv(one.data_ptr(), 1, ncclFloat32, 0, lane.comm(), lane.stream());
  });
  group.wait_on_host(*done);
  return lane;
}

}  // namespace

// Edges of the ring in order; on each the sender is number 0. The first message connects for good: it must
// not wait for a peer that waits for something else.
NcclLanes connect_lanes(NcclGroup& group) {
  const int rank = group.options().rank;
  const int size = static_cast<int>(group.options().members.size());
  NcclLanes lanes;
  const int edges = size == 2 ? 1 : size;
  for (int edge = 0; edge < edges; ++edge) {
    const int next = (edge + 1) % size;
    if (rank == edge) {
      lanes.to_next = &connect_lane(group, edge, next);
      lanes.from_next = &connect_lane(group, next, edge);
    } else if (rank == next) {
      lanes.from_previous = &connect_lane(group, edge, next);
      lanes.to_previous = &connect_lane(group, next, edge);
    }
  }
  if (size == 2 && rank == 1) {  // the one neighbour is both
    lanes.to_next = lanes.to_previous;
    lanes.from_next = lanes.from_previous;
  }
  return lanes;
}

}  // namespace llmtrain
