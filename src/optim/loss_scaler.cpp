#include "llmtrain/optim/loss_scaler.hpp"

#include <algorithm>

#include "llmtrain/core/check.hpp"
#include "llmtrain/spec/fields.hpp"

namespace llmtrain {

LossScale initial_loss_scale(const LossScaleSpec& spec) {
  LLMTRAIN_CHECK(spec.floor > 0 && spec.initial >= spec.floor && spec.window > 0 && spec.hysteresis > 0,
                 "a loss scale from {} with floor {}, window {} and hysteresis {}",
                 spec.initial,
                 spec.floor,
                 spec.window,
                 spec.hysteresis);
  return {.value = spec.initial, .overflows_left = spec.hysteresis};
}

LossScale next_loss_scale(const LossScaleSpec& spec, LossScale scale, bool overflowed) {
  if (overflowed) {
    scale.clean_steps = 0;
    scale.overflows_left = std::max<std::int64_t>(0, scale.overflows_left - 1);
    if (scale.overflows_left == 0) scale.value = std::max(spec.floor, scale.value / 2);
    return scale;
  }
  scale.clean_steps += 1;
  if (scale.clean_steps < spec.window) return scale;
  // Zero gradients never overflow: without a ceiling the scale would.
  return {.value = std::max(scale.value, std::min(kMaxLossScale, scale.value * 2)),
          .overflows_left = spec.hysteresis};
}

bool is_at_floor(const LossScaleSpec& spec, const LossScale& scale) {
  return scale.value <= spec.floor;
}

}  // namespace llmtrain
