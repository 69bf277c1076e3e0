#include "llmtrain/train/step_sums.hpp"

#include <ATen/ops/tensor.h>

namespace llmtrain {

StepSums sum_over(Communicator& group, const StepSums& local) {
  at::Tensor sums = at::tensor({local.loss_sum, local.valid_tokens, local.not_finite, local.stop_requested},
                               at::kDouble);  // [4]
  group.all_reduce(sums, ReduceOp::kSum);
  const double* s = sums.const_data_ptr<double>();
  return {.loss_sum = s[0], .valid_tokens = s[1], .not_finite = s[2], .stop_requested = s[3]};
}

}  // namespace llmtrain
