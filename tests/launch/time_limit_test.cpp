#include "llmtrain/launch/time_limit.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

constexpr Instant kNow{1'000};
constexpr Instant kEnd{3'600'000};

}  // namespace

TEST_CASE("time limit: the stop comes early enough for what steps and saves have taken", "[launch]") {
  TimeLimit none;
  none.save_took(Milliseconds{5'000});
  CHECK_FALSE(none.stop_at().has_value());
  CHECK_FALSE(none.take(Instant{1'000'000'000}));

  TimeLimit limit(kNow, kEnd, std::nullopt);
  CHECK(limit.stop_at() == kEnd - TimeLimit::kWayOut - 2 * TimeLimit::kUnknownSave);
  limit.step_took(Milliseconds{4'000});
  limit.step_took(Milliseconds{1'000});
  limit.save_took(Milliseconds{5'000});
  const Instant at = kEnd - TimeLimit::kWayOut - Milliseconds{18'000};
  CHECK(limit.stop_at() == at);
  CHECK_FALSE(limit.take(at - Milliseconds{1}));
  CHECK(limit.take(at));
  CHECK_FALSE(limit.take(at + Milliseconds{1}));  // said once
  CHECK_FALSE(limit.stop_at().has_value());
}

TEST_CASE("time limit: it learns from the slowest save, and from earlier launches", "[launch]") {
  TimeLimit limit(kNow, kEnd, Milliseconds{70'000});
  CHECK(limit.stop_at() == kEnd - TimeLimit::kWayOut - Milliseconds{140'000});
  limit.save_took(Milliseconds{1'000});
  CHECK(limit.stop_at() == kEnd - TimeLimit::kWayOut - Milliseconds{140'000});
  limit.save_took(Milliseconds{90'000});
  CHECK(limit.stop_at() == kEnd - TimeLimit::kWayOut - Milliseconds{180'000});
}

TEST_CASE("time limit: an evaluation that may be running is waited for", "[launch]") {
  TimeLimit limit(kNow, kEnd, Milliseconds{2'000});
  limit.evaluation_took(Milliseconds{60'000});
  CHECK(limit.stop_at() == kEnd - TimeLimit::kWayOut - Milliseconds{62'000});
  limit.evaluation_took(Milliseconds{1'000});
  CHECK(limit.stop_at() == kEnd - TimeLimit::kWayOut - Milliseconds{62'000});
}

TEST_CASE("time limit: guesses leave most of a short allocation to the job", "[launch]") {
  TimeLimit limit(kNow, kNow + Milliseconds{20'000}, std::nullopt);
  CHECK(limit.stop_at() == kNow + Milliseconds{20'000 - 3 * 2'000});
  limit.save_took(Milliseconds{100});
  CHECK(limit.stop_at() == kNow + Milliseconds{20'000 - 2'000 - 200});
  TimeLimit over(kNow, kNow - Milliseconds{1}, std::nullopt);
  CHECK(over.take(kNow));
}
