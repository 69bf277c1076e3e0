#include <algorithm>

#include "llmtrain/schedule/timeline.hpp"

#include "schedule_support.hpp"

// The idle share against what the papers say of each schedule, as exact fractions: idle time and makespan are
// whole numbers. Where a paper's form presumes enough micro-batches, what fewer cost is stated beside it.
using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// idle / (stages x makespan) == part / whole?
bool share_is(const Schedule& schedule, const Timeline& timeline, std::int64_t part, std::int64_t whole) {
  return timeline.idle() * whole == part * schedule.num_stages() * timeline.makespan;
}

void for_each_of(const std::string& name,
                 const std::function<void(const Schedule&, const Timeline&, int p, int m, int v)>& visit) {
  int count = 0;
  for_each_schedule(
      [&](const Schedule& schedule) {
        ++count;
        const int p = schedule.num_stages(), m = schedule.num_micro_batches, v = schedule.map.num_chunks();
        INFO(name << " pp " << p << " micro-batches " << m << " virtual stages " << v);
        visit(schedule, simulate(schedule), p, m, v);
      },
      name);
  REQUIRE(count >= 8 * 32);
}

}  // namespace

TEST_CASE("bubble share: 1f1b with 4 stages and 8 micro-batches idles 3/11") {
  const Schedule schedule = make("1f1b", 4, 8, 1);
  const Timeline timeline = simulate(schedule);
  CHECK(share_is(schedule, timeline, 3, 11));
  CHECK(timeline.bubble_share() == 3.0 / 11.0);
  CHECK(timeline.makespan == 33);
  for (int stage = 0; stage < 4; ++stage) CHECK(timeline.idle(stage) == 9);
}

TEST_CASE("bubble share: gpipe and 1f1b idle (p-1)/(m+p-1), for any m") {
  for (const char* name : {"gpipe", "1f1b"})
    for_each_of(name, [](const Schedule& schedule, const Timeline& timeline, int p, int m, int) {
      REQUIRE(share_is(schedule, timeline, p - 1, m + p - 1));
    });
}

TEST_CASE("bubble share: interleaved idles (p-1)/(v m+p-1), once every stage has a micro-batch") {
  for_each_of("interleaved", [](const Schedule& schedule, const Timeline& timeline, int p, int m, int v) {
    // With m < p each round of chunks ends in a wait for the first micro-batch, 3 units for each one missing.
    REQUIRE(timeline.makespan == 3 * (v * m + p - 1 + (v - 1) * std::max(0, p - m)));
    if (m >= p) REQUIRE(share_is(schedule, timeline, p - 1, v * m + p - 1));
  });
}

TEST_CASE("bubble share: zb-h1 idles (p-1)/(3m+p-1) from m = p on, a third of 1f1b's time") {
  for_each_of("zb-h1", [](const Schedule& schedule, const Timeline& timeline, int p, int m, int) {
    REQUIRE(timeline.makespan == 3 * m + p - 1 + std::max(0, p - m));
    if (m >= p) REQUIRE(share_is(schedule, timeline, p - 1, 3 * m + p - 1));
  });
}

TEST_CASE("bubble share: zbv idles (p-1)/(6m+p-1) from 2m = 3p-1 on") {
  for_each_of("zbv", [](const Schedule& schedule, const Timeline& timeline, int p, int m, int) {
    REQUIRE(timeline.makespan == 6 * m + p - 1 + std::max(0, 3 * p - 1 - 2 * m));
    if (2 * m >= 3 * p - 1) REQUIRE(share_is(schedule, timeline, p - 1, 6 * m + p - 1));
  });
}

TEST_CASE("timeline: other costs") {
  const Schedule schedule = make("gpipe", 3, 5, 1);
  const Timeline timeline = simulate(schedule, {.forward = 2, .input_gradient = 3, .weight_gradient = 4});
  CHECK(timeline.makespan == (5 + 3 - 1) * (2 + 3 + 4));
  CHECK(share_is(schedule, timeline, 2, 7));
}

TEST_CASE("timeline: every action starts when its stage and its input are ready, and not before") {
  const Timeline timeline = simulate(make("zb-h1", 2, 2, 1));
  // stage 0: F0 F1 . I0 W0 I1 W1; stage 1: . F0 I0 F1 I1 W0 W1
  const auto begins = [&](std::size_t stage) {
    std::vector<std::int64_t> times;
    for (const TimedAction& timed : timeline.stages[stage]) times.push_back(timed.begin);
    return times;
  };
  CHECK(begins(0) == std::vector<std::int64_t>{0, 1, 3, 4, 5, 6});
  CHECK(begins(1) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(timeline.makespan == 7);
}
