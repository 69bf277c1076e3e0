#include "llmtrain/placement/flat_layout.hpp"

#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

ParamSpec param(std::string name,
                std::vector<std::int64_t> shape,
                SegmentIndex segment,
                std::string tied = {}) {
  ParamSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  spec.segment = segment;
  spec.tied_with = std::move(tied);
  return spec;
}

std::vector<ParamSpec> table() {
  return {param("a", {10, 10}, 0), param("b", {3}, 0), param("c", {10, 10}, 1, "a"), param("d", {5}, 1)};
}

}  // namespace

TEST_CASE("flat layout: parameters follow each other on 64-byte boundaries", "[placement]") {
  const auto specs = table();
  const auto layout = flat_layout(specs);
  REQUIRE(layout.size() == 2);
  CHECK(layout[0].elements == 160);
  CHECK(layout[0].slots[1].offset == 128);
  CHECK(layout[0].own == FlatRange{0, 160});
  CHECK(layout[0].slots[0].owned == FlatRange{0, 100});
  CHECK(layout[1].slots.size() == 1);  // the tied matrix is elsewhere
  CHECK(layout[1].elements == 32);
}

TEST_CASE("flat layout: owned parts of all ranks are every element once, whatever the size of the group",
          "[placement]") {
  const auto specs = table();
  for (const int size : {1, 2, 3, 4, 8, 64}) {
    std::vector<std::int64_t> covered(specs.size(), 0);
    for (int rank = 0; rank < size; ++rank) {
      const auto layout = flat_layout(specs, {}, {.stage = 1, .rank = rank, .size = size});
      for (const FlatSegment& segment : layout) {
        CHECK(segment.elements % (kFlatAlignment * size) == 0);
        CHECK(segment.own.size() == segment.elements / size);
        CHECK(segment.own.begin == rank * segment.own.size());
        for (const FlatSlot& slot : segment.slots) {
          auto& seen = covered[static_cast<std::size_t>(slot.spec - specs.data())];
          if (slot.owned.size() == 0) continue;
          CHECK(slot.owned.begin == seen);  // ranges follow each other in rank order
          CHECK(slot.offset + slot.owned.begin >= segment.own.begin);
          CHECK(slot.offset + slot.owned.end <= segment.own.end);
          seen = slot.owned.end;
        }
      }
    }
    CHECK(covered == std::vector<std::int64_t>{100, 3, 0, 5});
  }
}

TEST_CASE("flat layout: without sharding the group changes nothing", "[placement]") {
  const auto specs = table();
  const auto layout = flat_layout(specs, {}, {.stage = 0, .rank = 3, .size = 4});
  CHECK(layout[0].elements == 160);
  CHECK(layout[0].own == FlatRange{0, 160});
  CHECK_THROWS_AS(flat_layout(specs, {}, {.stage = 1, .rank = 4, .size = 4}), CheckFailure);
}

TEST_CASE("flat layout: neighbours have different lanes, and who lends its matrix has one of its own",
          "[placement]") {
  const auto specs = table();
  const auto layout = flat_layout(specs);
  CHECK(layout[1].borrows == 0);
  CHECK_FALSE(layout[0].borrows.has_value());
  const LanePlan tied = plan_lanes(layout);
  CHECK(tied.lane_of == std::vector<int>{2, 1});
  CHECK(tied.elements == std::vector<std::int64_t>{0, 32, 160});
  const std::vector<ParamSpec> four = {
      param("a", {64}, 0), param("b", {32}, 1), param("c", {96}, 2), param("d", {1}, 3)};
  const LanePlan untied = plan_lanes(flat_layout(four));
  CHECK(untied.lane_of == std::vector<int>{0, 1, 0, 1});
  CHECK(untied.elements == std::vector<std::int64_t>{96, 32});
}
