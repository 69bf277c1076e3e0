#include "llmtrain/placement/zero_place.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

ParallelismSpec spread(int stage, int dp, int sp, std::optional<int> dp_shard = {}) {
  ParallelismSpec p;
  p.zero_stage = stage;
  p.dp = dp;
  p.sp = sp;
  p.dp_shard = dp_shard;
  return p;
}

}  // namespace

TEST_CASE("zero place: a copy is spread over dp x sp, or over a part of it", "[placement]") {
  const ZeroPlace all = zero_place(spread(2, 4, 2), 5);
  CHECK(all.stage == 2);
  CHECK(all.rank == 5);
  CHECK(all.size == 8);
  CHECK(all.copies == 1);
  const ZeroPlace hybrid = zero_place(spread(3, 4, 2, 4), 1);
  CHECK(hybrid.size == 4);
  CHECK(hybrid.copies == 2);
  ParallelismSpec keeps = spread(3, 2, 1);
  CHECK_FALSE(zero_place(keeps, 0).keeps_weights);
  keeps.reshard_after_forward = false;
  CHECK(zero_place(keeps, 0).keeps_weights);
}

TEST_CASE("zero place: where nothing is spread, all of the group hold one copy each", "[placement]") {
  for (const ParallelismSpec& p : {spread(0, 4, 1), spread(0, 4, 1, 2), spread(3, 4, 1, 1)}) {
    CHECK(zero_place(p, 3).stage == 0);
    CHECK(zero_place(p, 3).size == 4);
    CHECK(zero_place(p, 3).copies == 1);
    CHECK(zero_stage(p) == 0);
  }
  CHECK(zero_place(spread(3, 1, 1), 0).stage == 0);  // among one rank
}
