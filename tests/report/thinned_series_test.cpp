#include "llmtrain/report/thinned_series.hpp"

#include <cmath>

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("series: few points stay as they are, what is no number is left out", "[report]") {
  ThinnedSeries series(10);
  for (int i = 0; i < 10; ++i) series.add(i, 2 * i, 0);
  series.add(3, std::nan(""), 0);
  REQUIRE(series.points().size() == 10);
  CHECK(series.points()[4].mean == 8);
}

TEST_CASE("series: a million points become two thousand, and a spike stays to be seen", "[report]") {
  ThinnedSeries series;
  for (int i = 0; i < 1'000'000; ++i) series.add(i, i == 654'321 ? 100 : 1, 0);
  CHECK(series.points().size() <= 2000);
  CHECK(series.points().size() >= 900);
  double highest = 0, last = -1;
  std::int64_t count = 0;
  for (const SeriesPoint& point : series.points()) {
    highest = std::max(highest, point.high);
    CHECK(point.x > last);
    last = point.x;
    count += point.count;
  }
  CHECK(highest == 100);
  CHECK(count == 1'000'000);
}

TEST_CASE("series: incarnations are not merged, and many short ones are bounded too", "[report]") {
  ThinnedSeries series(100);
  for (int i = 0; i < 60; ++i) series.add(i, 1, 0);
  for (int i = 0; i < 60; ++i) series.add(i, 3, 1);
  for (const SeriesPoint& point : series.points()) CHECK(point.mean == (point.incarnation == 0 ? 1 : 3));
  for (int i = 0; i < 5000; ++i) series.add(1, 1, i);
  CHECK(series.points().size() <= 100);
}
