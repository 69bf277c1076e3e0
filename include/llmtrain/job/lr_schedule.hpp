#pragma once

#include <cstdint>

#include "llmtrain/spec/job_spec.hpp"

// The learning rate of every update, as a closed form of its number.
//
// Updates are counted from 1 over the whole job: k does not depend on ranks, accumulation, restarts or
// skipped steps (a skipped step has a number too). With peak = optimizer.lr, W = max(warm-up steps, 1),
// T = all steps, D = decay steps, r = min_lr_ratio:
//
//   k <= W        peak * k / W                                     first update peak / W; update W has the
//   peak constant      peak linear        peak * (1 - (1 - r) p)            p = (k - W) / (T - W) cosine peak
//   * (r + (1 - r) (1 + cos(pi p)) / 2)         the same p wsd           peak, and in the last D updates peak
//   * (1 - (1 - r) q)   q = (k - (T - D)) / D inverse_sqrt  peak * max(sqrt(W / k), r)
//
// Linear, cosine and wsd end at exactly r * peak in update T and stay there if the job goes on.
// constant, and wsd with D = 0, ignore r. No state, nothing to save: a checkpoint holds the step, and that is
// enough.
namespace llmtrain {

struct LrSchedule {
  LrStyle style = LrStyle::kCosine;
  double peak = 3e-4;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;
  std::int64_t decay_steps = 0;  // wsd; at most total - warm-up of them take place
  double min_lr_ratio = 0.1;
};

// The learning rate of update k >= 1.
double lr_at(const LrSchedule& schedule, std::int64_t k);

}  // namespace llmtrain
