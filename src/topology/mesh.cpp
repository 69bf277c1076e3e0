#include "llmtrain/topology/mesh.hpp"

namespace llmtrain {
namespace {

int& component(MeshCoord& coord, Axis axis) {
  switch (axis) {
    case Axis::kPipeline: return coord.pp;
    case Axis::kData: return coord.dp;
    case Axis::kSequence: return coord.sp;
    case Axis::kTensor: return coord.tp;
  }
  return coord.tp;
}

}  // namespace

std::vector<int> group_of(const MeshShape& shape, Axis axis, int global_rank) {
  MeshCoord coord = coord_of(shape, global_rank);
  std::vector<int> members;
  members.reserve(static_cast<std::size_t>(shape.size(axis)));
  for (component(coord, axis) = 0; component(coord, axis) < shape.size(axis); ++component(coord, axis))
    members.push_back(global_rank_of(shape, coord));
  return members;
}

std::vector<int> gradient_group_of(const MeshShape& shape, int global_rank) {
  MeshCoord coord = coord_of(shape, global_rank);
  std::vector<int> members;
  members.reserve(static_cast<std::size_t>(shape.dp * shape.sp));
  for (coord.dp = 0; coord.dp < shape.dp; ++coord.dp)
    for (coord.sp = 0; coord.sp < shape.sp; ++coord.sp) members.push_back(global_rank_of(shape, coord));
  return members;
}

}  // namespace llmtrain
