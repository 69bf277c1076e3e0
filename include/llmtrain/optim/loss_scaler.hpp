#pragma once

#include <cstdint>

#include "llmtrain/spec/job_spec.hpp"

// The factor that keeps fp16 gradients inside their range, and how it follows what overflows.
//
// Backward is seeded with a loss that is so many times larger, and gradients are divided by the same factor
// before anybody looks at them. It is state of the run: saved with it, and the same on every rank, since
// every rank sees the same steps. It knows no tensors.
namespace llmtrain {

struct LossScale {
  double value = 1;
  std::int64_t clean_steps = 0;     // in a row, since it changed
  std::int64_t overflows_left = 0;  // until it halves

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

LossScale initial_loss_scale(const LossScaleSpec& spec);

// After one more step. An overflow costs the step, the clean steps so far and one of the overflows left; when
// none is left, the scale halves at each, down to the floor. After `window` clean steps it doubles, and as
// many overflows as at first are left.
LossScale next_loss_scale(const LossScaleSpec& spec, LossScale scale, bool overflowed);

// A step that overflows here is not the scale's fault.
bool is_at_floor(const LossScaleSpec& spec, const LossScale& scale);

}  // namespace llmtrain
