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

TEST_CASE("run clock: a host's clock that jumps takes nobody along", "[launch]") {
  static double host_time = 0;
  host_time = 1'000'000;
  const RunClock clock([] { return host_time; });
  host_time += 86'400;  // somebody sets it, a day ahead
  CHECK(clock.now() == Approx(1'000'000).margin(5));
  CHECK(clock.from_host(host_time) == Approx(1'000'000).margin(5));
  CHECK(clock.from_host(host_time - 3) == Approx(999'997).margin(5));
  host_time -= 7 * 86'400;
  CHECK(clock.from_host(host_time) == Approx(1'000'000).margin(5));
}
