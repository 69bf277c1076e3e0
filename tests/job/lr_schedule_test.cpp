#include "llmtrain/job/lr_schedule.hpp"

#include <cmath>
#include <vector>

#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

LrSchedule schedule(LrStyle style, std::int64_t warmup = 3, std::int64_t total = 10, std::int64_t decay = 2) {
  return {.style = style,
          .peak = 1.0,
          .warmup_steps = warmup,
          .total_steps = total,
          .decay_steps = decay,
          .min_lr_ratio = 0.1};
}

std::vector<double> series(const LrSchedule& s, std::int64_t n) {
  std::vector<double> values;
  for (std::int64_t k = 1; k <= n; ++k) values.push_back(lr_at(s, k));
  return values;
}

void check_series(const LrSchedule& s, const std::vector<double>& expected) {
  const auto values = series(s, static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("update " << i + 1);
    CHECK(values[i] == Approx(expected[i]).epsilon(1e-12));
  }
}

constexpr LrStyle kAll[] = {
    LrStyle::kConstant, LrStyle::kLinear, LrStyle::kCosine, LrStyle::kWsd, LrStyle::kInverseSqrt};

}  // namespace

TEST_CASE("learning rate: golden series of every style", "[job]") {
  const double third = 1.0 / 3;
  check_series(schedule(LrStyle::kConstant), {third, 2 * third, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  check_series(schedule(LrStyle::kLinear),
               {third,
                2 * third,
                1,
                1 - 0.9 / 7,
                1 - 1.8 / 7,
                1 - 2.7 / 7,
                1 - 3.6 / 7,
                1 - 4.5 / 7,
                1 - 5.4 / 7,
                0.1,
                0.1});
  const auto cosine = [](double p) { return 0.1 + 0.45 * (1 + std::cos(3.14159265358979323846 * p)); };
  check_series(schedule(LrStyle::kCosine),
               {third,
                2 * third,
                1,
                cosine(1.0 / 7),
                cosine(2.0 / 7),
                cosine(3.0 / 7),
                cosine(4.0 / 7),
                cosine(5.0 / 7),
                cosine(6.0 / 7),
                0.1,
                0.1});
  check_series(schedule(LrStyle::kWsd), {third, 2 * third, 1, 1, 1, 1, 1, 1, 0.55, 0.1, 0.1});
  check_series(
      schedule(LrStyle::kInverseSqrt),
      {third, 2 * third, 1, std::sqrt(3.0 / 4), std::sqrt(3.0 / 5), std::sqrt(3.0 / 6), std::sqrt(3.0 / 7)});
  CHECK(lr_at(schedule(LrStyle::kInverseSqrt), 3000) == 0.1);
}

TEST_CASE("learning rate: first and last values", "[job]") {
  for (const LrStyle style : kAll)
    for (const std::int64_t warmup : {0, 1, 4}) {
      const LrSchedule s = schedule(style, warmup, 20, 5);
      CHECK(lr_at(s, 1) == (warmup == 4 ? 0.25 : 1.0));
      CHECK(lr_at(s, std::max<std::int64_t>(warmup, 1)) == 1.0);
      if (style == LrStyle::kLinear || style == LrStyle::kCosine || style == LrStyle::kWsd)
        CHECK(lr_at(s, 20) == Approx(0.1).epsilon(1e-15));
    }
}

TEST_CASE("learning rate: it rises, then never rises again, and stays within peak and minimum", "[job]") {
  for (const LrStyle style : kAll)
    for (const std::int64_t warmup : {0, 1, 3, 9, 10, 15})
      for (const std::int64_t decay : {0, 1, 7, 10, 99}) {
        const LrSchedule s = schedule(style, warmup, 10, decay);
        const auto values = series(s, 40);
        for (std::size_t i = 1; i < values.size(); ++i) {
          const bool warming = static_cast<std::int64_t>(i + 1) <= warmup;
          CHECK((warming ? values[i] > values[i - 1] : values[i] <= values[i - 1] + 1e-15));
          CHECK(values[i] <= 1.0);
          CHECK(values[i] >= (warming ? 0.0 : 0.1 - 1e-15));
        }
      }
}

TEST_CASE("learning rate: wsd without a decay is constant; far ends and zero are fine", "[job]") {
  CHECK(lr_at(schedule(LrStyle::kWsd, 3, 10, 0), 10) == 1.0);
  CHECK(lr_at(schedule(LrStyle::kWsd, 3, 10, 0), 11) == 1.0);
  LrSchedule s = schedule(LrStyle::kCosine, 0, 1'000'000'000'000);
  CHECK(lr_at(s, 500'000'000'000) == Approx(0.55).epsilon(1e-9));
  s.min_lr_ratio = 0;
  CHECK(lr_at(s, 1'000'000'000'000) == Approx(0).margin(1e-15));
  CHECK(lr_at(s, INT64_MAX) == Approx(0).margin(1e-15));
  CHECK_THROWS_AS(lr_at(s, 0), CheckFailure);
}
