#include "llmtrain/train/step_sums.hpp"

#include <ATen/ops/tensor.h>

namespace llmtrain {

StepSums sum_over_ranks(MeshComms& comms, StepSums local, Plant plant) {
  if (comms.axis(Axis::kTensor).rank() != 0) {
    local.valid_tokens = 0;
    // A loss that is not finite shows, whoever saw it.
    if (local.not_finite == 0 && plant != Plant::kLossCount) local.loss_sum = 0;
  }
  at::Tensor sums = at::tensor({local.loss_sum, local.valid_tokens, local.not_finite, local.stop_requested},
                               at::kDouble);  // [4]
  comms.world().all_reduce(sums, ReduceOp::kSum);
  const double* s = sums.const_data_ptr<double>();
  return {.loss_sum = s[0], .valid_tokens = s[1], .not_finite = s[2], .stop_requested = s[3]};
}

}  // namespace llmtrain
