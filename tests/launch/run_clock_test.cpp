#include "llmtrain/launch/run_clock.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("run clock: counts on from the time of day, and translates what this host has just read",
          "[launch]") {
  const RunClock clock;
  const double before = RunClock::time_of_day();
  CHECK(clock.now() == Approx(before).margin(5));
  CHECK(clock.from_host(RunClock::time_of_day()) == Approx(clock.now()).margin(1));
  CHECK(clock.from_host(RunClock::time_of_day() - 3) == Approx(clock.now() - 3).margin(1));
}
