#include "llmtrain/job/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

// How far k is on the way from update `from` to update `to`, 0 .. 1; at the end when there is no way.
double way(std::int64_t k, std::int64_t from, std::int64_t to) {
  if (k >= to) return 1;
  if (k <= from) return 0;
  return static_cast<double>(k - from) / static_cast<double>(to - from);
}

}  // namespace

double lr_at(const LrSchedule& s, std::int64_t k) {
  LLMTRAIN_CHECK(k >= 1, "updates are counted from 1, got {}", k);
  const std::int64_t warmup = std::max<std::int64_t>(s.warmup_steps, 1);
  if (k <= warmup) return s.peak * static_cast<double>(k) / static_cast<double>(warmup);
  const double r = s.min_lr_ratio;
  switch (s.style) {
    case LrStyle::kConstant: return s.peak;
    case LrStyle::kLinear: return s.peak * (1 - (1 - r) * way(k, warmup, s.total_steps));
    case LrStyle::kCosine:
      return s.peak * (r + (1 - r) * (1 + std::cos(std::numbers::pi * way(k, warmup, s.total_steps))) / 2);
    case LrStyle::kWsd: {
      if (s.decay_steps <= 0) return s.peak;
      const std::int64_t start = std::max(s.total_steps - s.decay_steps, warmup);
      return s.peak * (1 - (1 - r) * way(k, start, s.total_steps));
    }
    case LrStyle::kInverseSqrt:
      return s.peak * std::max(std::sqrt(static_cast<double>(warmup) / static_cast<double>(k)), r);
  }
  return s.peak;
}

}  // namespace llmtrain
