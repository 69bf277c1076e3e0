#include "llmtrain/schedule/stage_map.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/schedule/held_by_stage.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("stage map: a loop deals the virtual stages round") {
  const StageMap map = StageMap::loop(3, 2);
  CHECK(map.num_stages() == 3);
  CHECK(map.num_chunks() == 2);
  CHECK(map.num_virtual_stages() == 6);
  CHECK(map.virtual_stages(1) == std::vector{1, 4});
  CHECK(map.site(5) == Site{2, 1});
  CHECK(map.virtual_stage({2, 1}) == 5);
}

TEST_CASE("stage map: what is listed by virtual stage is dealt out to stages") {
  const std::vector<char> pieces = {'a', 'b', 'c', 'd', 'e', 'f'};
  CHECK(held_by_stage<char>(StageMap::loop(3, 2), pieces, 1) == std::vector{'b', 'e'});
  CHECK(held_by_stage<char>(StageMap::vee(3), pieces, 0) == std::vector{'a', 'f'});
}

TEST_CASE("stage map: a vee comes back to the first stage") {
  const StageMap map = StageMap::vee(3);
  CHECK(map.virtual_stages(0) == std::vector{0, 5});
  CHECK(map.virtual_stages(2) == std::vector{2, 3});
  CHECK(map.site(3) == Site{2, 1});
}

TEST_CASE("stage map: any owner, as long as all hold equally many") {
  const StageMap map({1, 0, 0, 1});
  CHECK(map.virtual_stages(0) == std::vector{1, 2});
  CHECK(map.virtual_stages(1) == std::vector{0, 3});
  CHECK_THROWS_AS(StageMap({0, 0, 1}), CheckFailure);
  CHECK_THROWS_AS(StageMap({0, 2}), CheckFailure);
}
