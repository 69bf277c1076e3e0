#include "llmtrain/diagnosis/deadlines.hpp"

#include <cmath>
#include <random>

#include "tests/support/catch.hpp"

using namespace llmtrain;
using std::chrono::milliseconds;

namespace {

RankNote at(int rank, Phase phase, std::int64_t step) {
  RankNote note;
  note.rank = rank;
  note.phase = std::string(to_string(phase));
  note.step = step;
  return note;
}

// Runs steps of `ms` on two ranks, seen ten times a second; the first moment at which somebody is overdue.
std::optional<milliseconds> first_alarm(ProgressWatch& watch, const std::vector<double>& steps) {
  milliseconds now{0};
  double next = 0;
  watch.start(0);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    next += steps[k];
    const auto number = static_cast<std::int64_t>(k);
    for (; static_cast<double>(now.count()) < next; now += milliseconds(100)) {
      for (const int rank : {0, 1}) watch.sample(now, at(rank, Phase::kBackward, number));
      if (!watch.overdue().empty()) return now;
    }
    watch.step_took(number + 1, milliseconds(static_cast<std::int64_t>(steps[k])));
  }
  return std::nullopt;
}

// Who is overdue once these ranks were seen there.
std::vector<int> overdue_at(
    ProgressWatch& watch, milliseconds now, const std::vector<int>& ranks, Phase phase, std::int64_t step) {
  for (const int rank : ranks) watch.sample(now, at(rank, phase, step));
  return watch.overdue();
}

}  // namespace

TEST_CASE("deadlines: percentiles are right within a bucket", "[diagnosis]") {
  DurationHistogram histogram;
  CHECK(histogram.percentile(0.99) == milliseconds{0});
  for (int i = 1; i <= 1000; ++i) histogram.add(milliseconds(i));
  CHECK(histogram.count() == 1000);
  for (const double share : {0.01, 0.5, 0.9, 0.99}) {
    const auto ms = static_cast<double>(histogram.percentile(share).count());
    CHECK(ms >= share * 1000);
    CHECK(ms <= share * 1000 * 1.1 + 1);
  }
  histogram.add(milliseconds{-5});
  histogram.add(milliseconds{1'000'000'000'000'000});
  CHECK(histogram.percentile(1.0).count() > 1'000'000'000);
}

TEST_CASE("deadlines: what is not learned yet has a generous limit, then the run's own pace", "[diagnosis]") {
  Deadlines deadlines(
      {.startup_timeout = milliseconds(300'000), .collective_timeout = milliseconds(100'000)});
  CHECK(deadlines.limit(PhaseClass::kStarting) == milliseconds(300'000));
  CHECK(deadlines.limit(PhaseClass::kFirstStep) == milliseconds(300'000));
  CHECK(deadlines.limit(PhaseClass::kStep) == milliseconds(100'000));
  for (int i = 0; i < 5; ++i) deadlines.observe(PhaseClass::kStep, milliseconds(100));
  CHECK(deadlines.limit(PhaseClass::kStep) == milliseconds(10'000));  // never less
  CHECK(deadlines.limit(PhaseClass::kSaving) == milliseconds(100'000));
  for (int i = 0; i < 5; ++i) deadlines.observe(PhaseClass::kEvaluation, milliseconds(8000));
  CHECK(deadlines.limit(PhaseClass::kEvaluation) >= milliseconds(48'000));  // doubled: five are few
  for (int i = 0; i < 100; ++i) deadlines.observe(PhaseClass::kEvaluation, milliseconds(8000));
  CHECK(deadlines.limit(PhaseClass::kEvaluation) >= milliseconds(24'000));
  CHECK(deadlines.limit(PhaseClass::kEvaluation) <= milliseconds(26'500));
}

TEST_CASE("deadlines: a pace of long ago is forgotten", "[diagnosis]") {
  Deadlines deadlines({.least = milliseconds(1)});
  for (int i = 0; i < 5000; ++i) deadlines.observe(PhaseClass::kStep, milliseconds(10'000));
  for (int i = 0; i < 20'000; ++i) deadlines.observe(PhaseClass::kStep, milliseconds(100));
  CHECK(deadlines.limit(PhaseClass::kStep) <= milliseconds(400));
}

TEST_CASE("progress watch: a rank that stands still is overdue, and only then", "[diagnosis]") {
  ProgressWatch watch({.startup_timeout = milliseconds(60'000), .collective_timeout = milliseconds(30'000)});
  CHECK_FALSE(first_alarm(watch, std::vector<double>(100, 500)).has_value());
  const milliseconds last(49'900);
  CHECK(overdue_at(watch, last + milliseconds(9'000), {0, 1}, Phase::kBackward, 99).empty());
  CHECK(overdue_at(watch, last + milliseconds(11'000), {0, 1}, Phase::kBackward, 99) ==
        std::vector<int>{0, 1});
  watch.forget(1);
  CHECK(overdue_at(watch, last + milliseconds(11'000), {0}, Phase::kBackward, 99) == std::vector<int>{0});
  watch.start(99);  // a restart: first steps have their own limit again
  watch.sample(last, at(0, Phase::kStarting, 0));
  CHECK(overdue_at(watch, last + milliseconds(59'000), {0}, Phase::kStarting, 0).empty());
  CHECK(overdue_at(watch, last + milliseconds(61'000), {0}, Phase::kStarting, 0) == std::vector<int>{0});
  CHECK(overdue_at(watch, last + milliseconds(1'000'000), {0}, Phase::kFinished, 120).empty());
}

TEST_CASE("progress watch: a stopped process is overdue before anything was learned", "[diagnosis]") {
  ProgressWatch watch({});
  watch.start(0);
  RankNote stopped = at(1, Phase::kStarting, 0);
  const bool frozen = GENERATE(false, true);
  stopped.process_state = frozen ? "D" : "T";
  if (frozen) stopped.wait_channel = "frozen_cgroup";
  const auto see = [&](milliseconds now) {
    watch.sample(now, at(0, Phase::kStarting, 0));
    watch.sample(now, stopped);
    return watch.overdue();
  };
  CHECK(see(milliseconds(1'000)).empty());
  CHECK(see(milliseconds(5'900)).empty());
  CHECK(see(milliseconds(6'000)) == std::vector<int>{1});
  stopped.process_state = "S";
  stopped.wait_channel.clear();  // continued in time: the count begins anew
  CHECK(see(milliseconds(6'100)).empty());
  stopped.process_state = "T";
  CHECK(see(milliseconds(7'000)).empty());
  CHECK(see(milliseconds(12'000)) == std::vector<int>{1});
  stopped.process_state = "t";  // a debugger's
  CHECK(see(milliseconds(13'000)).empty());
  CHECK(see(milliseconds(60'000)).empty());
}

TEST_CASE("progress watch: fast steps between two samples are learned one by one", "[diagnosis]") {
  ProgressWatch watch({});
  watch.start(0);
  for (int step = 1; step <= 20; ++step) watch.step_took(step, milliseconds(10));
  watch.sample(milliseconds(1'000), at(0, Phase::kBackward, 20));
  CHECK(overdue_at(watch, milliseconds(10'900), {0}, Phase::kBackward, 20).empty());
  CHECK(overdue_at(watch, milliseconds(11'100), {0}, Phase::kBackward, 20) == std::vector<int>{0});
}

TEST_CASE("progress watch: nobody is overdue who waits for a save", "[diagnosis]") {
  ProgressWatch watch({.collective_timeout = milliseconds(120'000)});
  CHECK_FALSE(first_alarm(watch, std::vector<double>(50, 200)).has_value());
  const milliseconds now(20'000);
  watch.sample(now, at(0, Phase::kSaving, 50));
  watch.sample(now, at(1, Phase::kForward, 50));
  for (const auto& [after, late] :
       {std::pair(60'000, std::vector<int>{}), std::pair(121'000, std::vector{0, 1})}) {
    watch.sample(now + milliseconds(after), at(0, Phase::kSaving, 50));
    CHECK(overdue_at(watch, now + milliseconds(after), {1}, Phase::kForward, 50) == late);
  }
}

TEST_CASE("progress watch: of a rank that is not seen nothing is known", "[diagnosis]") {
  ProgressWatch watch({});
  CHECK_FALSE(first_alarm(watch, std::vector<double>(50, 200)).has_value());
  const milliseconds now(10'000);
  // The node of rank 1 is not heard for a while; then it is, and the rank has moved on.
  CHECK(overdue_at(watch, now + milliseconds(9'000), {0}, Phase::kBackward, 49).empty());
  CHECK(overdue_at(watch, now + milliseconds(30'000), {0}, Phase::kBackward, 60).empty());
  CHECK(overdue_at(watch, now + milliseconds(31'000), {0, 1}, Phase::kBackward, 60).empty());
  CHECK(overdue_at(watch, now + milliseconds(45'000), {0, 1}, Phase::kBackward, 60) == std::vector{0, 1});
}

TEST_CASE("progress watch: a run that becomes slower gives no alarm", "[diagnosis]") {
  for (const double ms : {100.0, 5'000.0, 30'000.0}) {
    ProgressWatch watch({});
    std::vector<double> steps(60, ms);
    steps.insert(steps.end(), 60, 2 * ms);
    for (int i = 0; i < 60; ++i) steps.push_back(2 * ms * std::pow(1.02, i));
    CHECK_FALSE(first_alarm(watch, steps).has_value());
  }
}

TEST_CASE("deadlines: 100,000 clean runs give no alarm", "[diagnosis]") {
  std::mt19937_64 random(7);
  int alarms = 0;
  for (int run = 0; run < 100'000; ++run) {
    Deadlines deadlines({});
    const double median =
        std::exp(std::uniform_real_distribution<>(std::log(50.0), std::log(60'000.0))(random));
    std::lognormal_distribution<> step(std::log(median), 0.2);
    for (int k = 0; k < 40; ++k) {
      const milliseconds took(static_cast<std::int64_t>(step(random)));
      alarms += took > deadlines.limit(PhaseClass::kStep) ? 1 : 0;
      deadlines.observe(PhaseClass::kStep, took);
    }
  }
  CHECK(alarms == 0);
}
