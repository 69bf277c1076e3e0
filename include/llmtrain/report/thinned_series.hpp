#pragma once

#include <cstdint>
#include <vector>

// A curve of any number of points, kept as at most two thousand: neighbours are merged when it gets longer.
//
// A merged point keeps the mean and the extremes of what it stands for, so that a spike stays to be seen.
// Points of different incarnations are never merged: a replayed stretch is a line of its own.
namespace llmtrain {

struct SeriesPoint {
  double x = 0;
  double mean = 0;
  double low = 0;
  double high = 0;
  std::int64_t count = 0;
  int incarnation = 0;
};

class ThinnedSeries {
 public:
  explicit ThinnedSeries(std::size_t most = 2000) : most_(most) {}

  void add(double x, double y, int incarnation);
  const std::vector<SeriesPoint>& points() const { return points_; }

 private:
  void thin();

  std::size_t most_;
  std::int64_t per_point_ = 1;  // how many values a full point stands for
  std::vector<SeriesPoint> points_;
};

}  // namespace llmtrain
