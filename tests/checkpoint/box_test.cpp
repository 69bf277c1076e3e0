#include "llmtrain/checkpoint/box.hpp"

#include <numeric>
#include <random>

#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

// The flat indices of a box's elements, in its own row-major order.
std::vector<std::int64_t> indices(const std::vector<std::int64_t>& shape, const Box& box) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < volume(box.extent); ++i) {
    std::int64_t rest = i;
    std::int64_t flat = 0;
    std::int64_t stride = 1;
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      flat += (box.offset[dim] + rest % box.extent[dim]) * stride;
      rest /= box.extent[dim];
      stride *= shape[dim];
    }
    result.push_back(flat);
  }
  return result;
}

}  // namespace

TEST_CASE("box: intersection is what both hold", "[checkpoint]") {
  CHECK(intersect({{0, 0}, {4, 4}}, {{2, 1}, {4, 2}}) == Box{{2, 1}, {2, 2}});
  CHECK(!intersect({{0}, {4}}, {{4}, {4}}));
  CHECK(intersect({}, {}) == Box{});  // scalars
  CHECK(!intersect({{0}, {0}}, {{0}, {4}}));
}

TEST_CASE("box: a flat range becomes boxes that hold exactly its elements (C16, C17)", "[checkpoint]") {
  const std::vector<std::vector<std::int64_t>> shapes = {{}, {7}, {5, 6}, {3, 4, 5}, {1, 1, 9}, {101, 3}};
  for (const auto& shape : shapes) {
    const std::int64_t total = volume(shape);
    for (std::int64_t begin = 0; begin <= total; begin += 1 + total / 17)
      for (std::int64_t end = begin; end <= total; end += 1 + total / 17) {
        std::vector<std::int64_t> found;
        const std::vector<Box> boxes = boxes_of_flat_range(shape, begin, end);
        for (const Box& box : boxes) {
          CHECK(is_inside(box, shape));
          for (const std::int64_t index : indices(shape, box)) found.push_back(index);
        }
        std::vector<std::int64_t> wanted(static_cast<std::size_t>(end - begin));
        std::iota(wanted.begin(), wanted.end(), begin);
        CHECK(found == wanted);
        CHECK(boxes.size() <= std::max<std::size_t>(1, 2 * shape.size()));
      }
  }
  CHECK_THROWS_AS(boxes_of_flat_range({2, 2}, 0, 5), CheckFailure);
}

TEST_CASE("box: runs copy every common element once, in as few pieces as the layout allows", "[checkpoint]") {
  const auto copy = [](const Box& from, const Box& to, const std::vector<std::int64_t>& shape) {
    const auto source = indices(shape, from);
    std::vector<std::int64_t> target(static_cast<std::size_t>(volume(to.extent)), -1);
    std::size_t num_runs = 0;
    if (const auto common = intersect(from, to))
      for_each_run(*common, from, to, [&](const ContiguousRun& run) {
        ++num_runs;
        for (std::int64_t i = 0; i < run.count; ++i)
          target[static_cast<std::size_t>(run.to + i)] = source[static_cast<std::size_t>(run.from + i)];
        return true;
      });
    const auto wanted = indices(shape, to);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (target[i] != -1) CHECK(target[i] == wanted[i]);
    const auto common = intersect(from, to);
    CHECK(std::count_if(target.begin(), target.end(), [](auto v) { return v != -1; }) ==
          (common ? volume(common->extent) : 0));
    return num_runs;
  };
  CHECK(copy(whole({4, 6}), whole({4, 6}), {4, 6}) == 1);
  CHECK(copy(whole({4, 6}), {{1, 0}, {2, 6}}, {4, 6}) == 1);
  CHECK(copy(whole({4, 6}), {{0, 2}, {4, 2}}, {4, 6}) == 4);
  CHECK(copy(whole({}), whole({}), {}) == 1);
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const auto up_to = [&](unsigned limit) { return 1 + static_cast<std::int64_t>(random() % limit); };
    const std::vector<std::int64_t> shape = {up_to(4), up_to(5), up_to(6)};
    const auto any_box = [&] {
      Box box;
      for (const std::int64_t extent : shape) {
        box.offset.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(extent)));
        box.extent.push_back(
            1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(extent - box.offset.back())));
      }
      return box;
    };
    copy(any_box(), any_box(), shape);
  }
}

TEST_CASE("box: tiling sees holes, overlaps and strangers", "[checkpoint]") {
  const std::vector<std::int64_t> shape = {4, 6};
  CHECK(tiles(shape, {whole(shape)}));
  CHECK(tiles(shape, {{{0, 0}, {4, 3}}, {{0, 3}, {4, 3}}}));
  CHECK(tiles(shape, boxes_of_flat_range(shape, 0, 24)));
  CHECK(!tiles(shape, {{{0, 0}, {4, 3}}}));
  CHECK(!tiles(shape, {{{0, 0}, {4, 3}}, {{0, 2}, {4, 3}}}));
  CHECK(!tiles(shape, {{{0, 0}, {4, 3}}, {{0, 3}, {4, 4}}}));
  CHECK(!tiles(shape, {{{0, 0}, {4, 3}}, {{0, 0}, {4, 3}}}));
  CHECK(!tiles(shape, {}));
  CHECK(tiles({}, {Box{}}));
  CHECK(!tiles({}, {Box{}, Box{}}));
  CHECK(tiles({0, 3}, {Box{{0, 0}, {0, 3}}}));
}

TEST_CASE("box: a piece is called by its slices", "[checkpoint]") {
  CHECK(piece_name("w", {4, 6}, whole({4, 6})) == "w");
  CHECK(piece_name("w", {4, 6}, {{2, 0}, {2, 6}}) == "w[2:4,0:6]");
}
