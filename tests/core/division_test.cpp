#include "llmtrain/core/division.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("division: exact_div refuses a remainder", "[core]") {
  CHECK(exact_div(12, 4) == 3);
  CHECK_THROWS_AS(exact_div(13, 4), CheckFailure);
  CHECK_THROWS_AS(exact_div(1, 0), CheckFailure);
}

TEST_CASE("division: ceil_div and round_up round up", "[core]") {
  CHECK(ceil_div(12, 4) == 3);
  CHECK(ceil_div(13, 4) == 4);
  CHECK(round_up(13, 4) == 16);
}
