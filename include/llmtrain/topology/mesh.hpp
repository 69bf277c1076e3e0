#pragma once

#include <array>
#include <compare>
#include <string_view>
#include <vector>

#include "llmtrain/core/division.hpp"

// Which rank stands where: pure arithmetic over the axes pp, dp, sp, tp.
//
// World = pp x dp x sp x tp, row-major with tp fastest, so that a tp group is contiguous and stays
// inside one node whenever tp <= devices per node. Nothing here knows a process, a host or a tensor.
namespace llmtrain {

enum class Axis { kPipeline, kData, kSequence, kTensor };
inline constexpr std::array kAxes = {Axis::kPipeline, Axis::kData, Axis::kSequence, Axis::kTensor};

// pp, dp, sp, tp.
constexpr std::string_view to_string(Axis axis) {
  switch (axis) {
    case Axis::kPipeline: return "pp";
    case Axis::kData: return "dp";
    case Axis::kSequence: return "sp";
    case Axis::kTensor: return "tp";
  }
  return "?";
}

struct MeshShape {
  int pp = 1;
  int dp = 1;
  int sp = 1;
  int tp = 1;

  constexpr int world_size() const { return pp * dp * sp * tp; }
  constexpr int size(Axis axis) const {
    switch (axis) {
      case Axis::kPipeline: return pp;
      case Axis::kData: return dp;
      case Axis::kSequence: return sp;
      case Axis::kTensor: return tp;
    }
    return 1;
  }
  friend constexpr bool operator==(const MeshShape&, const MeshShape&) = default;
};

struct MeshCoord {
  int pp = 0;
  int dp = 0;
  int sp = 0;
  int tp = 0;
  friend constexpr auto operator<=>(const MeshCoord&, const MeshCoord&) = default;
};

constexpr MeshCoord coord_of(const MeshShape& shape, int global_rank) {
  MeshCoord coord;
  coord.tp = global_rank % shape.tp;
  global_rank /= shape.tp;
  coord.sp = global_rank % shape.sp;
  global_rank /= shape.sp;
  coord.dp = global_rank % shape.dp;
  coord.pp = global_rank / shape.dp;
  return coord;
}

constexpr int global_rank_of(const MeshShape& shape, const MeshCoord& coord) {
  return ((coord.pp * shape.dp + coord.dp) * shape.sp + coord.sp) * shape.tp + coord.tp;
}

// Global ranks, ascending, of the group along `axis` that holds `global_rank`.
std::vector<int> group_of(const MeshShape& shape, Axis axis, int global_rank);

// The dp x sp group: gradients are summed over it, and zero shards live in it.
std::vector<int> gradient_group_of(const MeshShape& shape, int global_rank);

static_assert(coord_of({.pp = 2, .dp = 2, .sp = 1, .tp = 2}, 5) ==
              MeshCoord{.pp = 1, .dp = 0, .sp = 0, .tp = 1});
static_assert(global_rank_of({.pp = 2, .dp = 2, .sp = 1, .tp = 2}, {.pp = 1, .dp = 0, .sp = 0, .tp = 1}) ==
              5);

}  // namespace llmtrain
