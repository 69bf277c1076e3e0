#include "llmtrain/launch/time_limit.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("time limit: the stop comes early enough for what steps and saves have taken", "[launch]") {
  TimeLimit none(std::nullopt);
  CHECK_FALSE(none.stop_at().has_value());
  CHECK_FALSE(none.take(Instant{1'000'000'000}));

  TimeLimit limit(Instant{600'000});
  CHECK(limit.stop_at() == Instant{600'000} - TimeLimit::kWayOut - 2 * TimeLimit::kUnknownSave);
  limit.step_took(Milliseconds{4'000});
  limit.step_took(Milliseconds{1'000});
  limit.save_took(Milliseconds{5'000});
  const Instant at = Instant{600'000} - TimeLimit::kWayOut - Milliseconds{18'000};
  CHECK(limit.stop_at() == at);
  CHECK_FALSE(limit.take(at - Milliseconds{1}));
  CHECK(limit.take(at));
  CHECK_FALSE(limit.take(at + Milliseconds{1}));  // said once
  CHECK_FALSE(limit.stop_at().has_value());
}
