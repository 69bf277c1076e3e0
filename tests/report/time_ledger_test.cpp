#include "llmtrain/report/time_ledger.hpp"

#include <random>

#include "llmtrain/report/lineage.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("ledger: a run that crashes once", "[report]") {
  TimeLedger ledger({0, 1}, {{0, 100}});
  ledger.seen(0, 103);  // run_started
  ledger.step(0, 105, 1, 1.0);
  ledger.saved(0, 106, 0.75);
  ledger.step(0, 107, 2, 1.0);
  CHECK(ledger.failed(0, 110) == 2.0);  // one second of it may have been the step that was cut off
  CHECK_FALSE(ledger.failed(0, 110.5));
  ledger.restarting(0, 111);
  ledger.seen(1, 112);
  ledger.step(1, 114, 2, 1.0);
  ledger.evaluated(1, 116);
  ledger.finished(1, 117);
  const LedgerTotals totals = ledger.totals({{0, 1}, {1, kAllSteps}});
  CHECK(totals.of(TimeClass::kStartup) == 4 + 1);
  CHECK(totals.of(TimeClass::kProductive) == 2);
  CHECK(totals.of(TimeClass::kReplayed) == 2);
  CHECK(totals.of(TimeClass::kSaves) == 0.75);
  CHECK(totals.of(TimeClass::kUnknown) == 0.25);
  CHECK(totals.of(TimeClass::kDetection) == 2);
  CHECK(totals.of(TimeClass::kRestart) == 3);
  CHECK(totals.of(TimeClass::kEvaluation) == 2);
  CHECK(totals.of(TimeClass::kDown) == 0);
  CHECK(totals.productive_steps == 2);
  CHECK(totals.replayed_steps == 1);
  CHECK(totals.wall() == 17);
  CHECK(totals.effective_ratio() == Approx(2.0 / 17));
}

TEST_CASE("ledger: what keeps the next step waiting after a save belongs to the save", "[report]") {
  TimeLedger ledger({0});
  ledger.seen(0, 100);
  ledger.step(0, 101, 1, 1.0);
  ledger.saved(0, 102, 0.75);
  ledger.seen(0, 102.25);
  ledger.step(0, 103.5, 2, 1.0);
  ledger.step(0, 105, 3, 1.0);
  ledger.saved(0, 106, 1.0);
  ledger.evaluated(0, 107);
  ledger.step(0, 108.5, 4, 1.0);
  const LedgerTotals totals = ledger.totals({{0, kAllSteps}});
  CHECK(totals.of(TimeClass::kSaves) == 0.75 + 0.5 + 1);
  CHECK(totals.of(TimeClass::kEvaluation) == 1);
  CHECK(totals.of(TimeClass::kUnknown) == 0.25 + 0.5 + 0.5);
}

TEST_CASE("ledger: between launches the run is down until the next was begun, where that is known",
          "[report]") {
  for (const bool known : {true, false}) {
    TimeLedger ledger({0, 1}, known ? std::map<int, double>{{1, 50}} : std::map<int, double>{{1, 5}});
    ledger.step(0, 10, 1, 1.0);
    ledger.finished(0, 11);
    ledger.seen(1, 60);
    ledger.step(1, 62, 2, 1.0);
    const LedgerTotals totals = ledger.totals({{0, 1}, {1, kAllSteps}});
    CHECK(totals.of(TimeClass::kDown) == (known ? 39 : 49));
    CHECK(totals.of(TimeClass::kStartup) == (known ? 12 : 2));
    CHECK(totals.wall() == 52);
  }
}

TEST_CASE("ledger: a launch that was cut off without a word leaves down time", "[report]") {
  TimeLedger ledger({0, 1});
  ledger.step(0, 10, 1, 1.0);
  ledger.step(1, 20, 2, 1.0);
  const LedgerTotals totals = ledger.totals({{0, 1}, {1, kAllSteps}});
  CHECK(totals.of(TimeClass::kDown) == 10);
  CHECK(totals.wall() == 10);
}

TEST_CASE("ledger: a clock that is set back adds nothing", "[report]") {
  TimeLedger ledger({0});
  ledger.step(0, 1000, 1, 1.0);
  ledger.step(0, 500, 2, 1.0);
  ledger.step(0, 501, 3, 1.0);
  CHECK(ledger.totals({{0, kAllSteps}}).wall() == 1);
}

// Whatever comes in whatever order: no part is negative, and all parts together are the time there was.
TEST_CASE("ledger: a start that another clock dates a day earlier is not believed", "[report]") {
  TimeLedger ledger({0}, {{0, 100'000 - 86'400}});
  ledger.seen(0, 100'000);
  ledger.step(0, 100'001, 1, 1.0);
  ledger.finished(0, 100'001);
  CHECK(ledger.totals({{0, kAllSteps}}).wall() == 1);
}

TEST_CASE("ledger: the parts sum to the wall time", "[report]") {
  std::mt19937_64 random(20260101);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::int64_t> resumes;
    for (int i = below(5); i >= 0; --i) resumes.push_back(below(30));
    std::map<int, double> started_at;
    for (int i = 0; i < 5; ++i)
      if (below(2) == 0) started_at[i] = 1000 + below(2000) / 4.0;
    started_at.erase(0);  // it would move the start
    TimeLedger ledger(resumes, started_at);
    double time = 1000;
    int incarnation = 0;
    std::int64_t step = 0, steps = 0;
    ledger.seen(0, time);
    for (int i = below(120); i >= 0; --i) {
      time += below(4) == 0 ? 0 : below(64) / 4.0;
      if (below(12) == 0) {
        ++incarnation;
        step = resumes[static_cast<std::size_t>(below(static_cast<int>(resumes.size())))];
      }
      switch (below(8)) {
        case 0: ledger.evaluated(incarnation, time); break;
        case 1: ledger.saved(incarnation, time, below(40) / 4.0 - 1); break;
        case 2: ledger.failed(incarnation, time); break;
        case 3: ledger.restarting(incarnation, time); break;
        case 4: ledger.finished(incarnation, time); break;
        case 5: ledger.seen(incarnation, time); break;
        default:
          ++steps;
          ledger.step(
              incarnation, time, ++step, below(5) == 0 ? std::nullopt : std::optional(below(40) / 4.0));
      }
    }
    std::map<int, std::int64_t> accepted;
    for (int i = 0; i <= incarnation; ++i)
      accepted[i] = below(3) == 0
                        ? kAllSteps
                        : resumes[static_cast<std::size_t>(below(static_cast<int>(resumes.size())))];
    const LedgerTotals totals = ledger.totals(accepted);
    for (const double part : totals.seconds) REQUIRE(part >= 0);
    REQUIRE(totals.wall() == Approx(time - 1000).margin(1e-6));
    REQUIRE(totals.productive_steps + totals.replayed_steps == steps);
    REQUIRE(totals.effective_ratio() <= 1);
  }
}
