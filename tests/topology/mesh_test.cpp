#include "llmtrain/topology/mesh.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("mesh: coordinates and ranks are a bijection", "[topology]") {
  const MeshShape shape{.pp = 2, .dp = 3, .sp = 2, .tp = 4};
  for (int rank = 0; rank < shape.world_size(); ++rank)
    CHECK(global_rank_of(shape, coord_of(shape, rank)) == rank);
}

TEST_CASE("mesh: a tp group is contiguous", "[topology]") {
  CHECK(group_of({.pp = 2, .dp = 2, .tp = 4}, Axis::kTensor, 6) == std::vector<int>{4, 5, 6, 7});
}

TEST_CASE("mesh: the groups of an axis partition the world", "[topology]") {
  const MeshShape shape{.pp = 2, .dp = 3, .sp = 2, .tp = 2};
  for (const Axis axis : kAxes) {
    std::vector<int> seen;
    for (int rank = 0; rank < shape.world_size(); ++rank) {
      const auto group = group_of(shape, axis, rank);
      REQUIRE(static_cast<int>(group.size()) == shape.size(axis));
      REQUIRE(std::find(group.begin(), group.end(), rank) != group.end());
      if (group.front() == rank) seen.insert(seen.end(), group.begin(), group.end());
    }
    std::sort(seen.begin(), seen.end());
    std::vector<int> all(static_cast<std::size_t>(shape.world_size()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    CHECK(seen == all);
  }
}

TEST_CASE("mesh: gradients meet over dp x sp", "[topology]") {
  CHECK(gradient_group_of({.pp = 1, .dp = 2, .sp = 2, .tp = 2}, 3) == std::vector<int>{1, 3, 5, 7});
}
