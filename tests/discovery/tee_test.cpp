#include "llmtrain/discovery/tee.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("tee: torchrun's words, with ranks of several digits", "[discovery]") {
  const auto all = Tee::parse("3");
  REQUIRE(all.ok());
  CHECK((all->out(7) && all->err(7)));
  const auto map = Tee::parse("0:3,1:2,12:1");
  REQUIRE(map.ok());
  CHECK((map->out(0) && map->err(0)));
  CHECK((!map->out(1) && map->err(1)));
  CHECK((map->out(12) && !map->err(12)));
  CHECK((!map->out(2) && !map->err(2)));
  for (const char* bad :
       {"", "4", "-1", "0:4", "0:", ":3", "0:3,", "0:3,0:1", "a:1", "0:3 1:2", "70000:1", "0:1:2"}) {
    INFO(bad);
    const auto refused = Tee::parse(bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
  }
}
