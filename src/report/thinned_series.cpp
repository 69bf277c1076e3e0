#include "llmtrain/report/thinned_series.hpp"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

SeriesPoint merged(const SeriesPoint& a, const SeriesPoint& b) {
  const double share = static_cast<double>(b.count) / static_cast<double>(a.count + b.count);
  return {.x = a.x + (b.x - a.x) * share,
          .mean = a.mean + (b.mean - a.mean) * share,
          .low = std::min(a.low, b.low),
          .high = std::max(a.high, b.high),
          .count = a.count + b.count,
          .incarnation = a.incarnation};
}

}  // namespace

void ThinnedSeries::add(double x, double y, int incarnation) {
  if (!std::isfinite(x) || !std::isfinite(y)) return;
  const SeriesPoint point{x, y, y, y, 1, incarnation};
  if (!points_.empty() && points_.back().incarnation == incarnation && points_.back().count < per_point_)
    points_.back() = merged(points_.back(), point);
  else
    points_.push_back(point);
  if (points_.size() > most_) thin();
}

void ThinnedSeries::thin() {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;  // series of short incarnations double it without end
  per_point_ = std::min(2 * per_point_, kMost);
  std::vector<SeriesPoint> kept;
  for (const SeriesPoint& point : points_) {
    const bool joins = !kept.empty() && kept.back().incarnation == point.incarnation &&
                       kept.back().count + point.count <= per_point_;
    if (joins)
      kept.back() = merged(kept.back(), point);
    else
      kept.push_back(point);
  }
  // Thousands of incarnations of a point or two: only leaving some out makes it shorter.
  if (kept.size() > most_ - most_ / 4) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < kept.size(); i += 2) kept[next++] = kept[i];
    kept.resize(next);
  }
  points_ = std::move(kept);
}

}  // namespace llmtrain
