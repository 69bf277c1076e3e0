#include "llmtrain/train/evaluator.hpp"

#include "llmtrain/train/error.hpp"
#include "llmtrain/train/micro_batch.hpp"
#include "llmtrain/train/step_sums.hpp"

namespace llmtrain {

EvalReport Evaluator::run(std::int64_t step) {
  LossSums local;
  for (std::int64_t m = 0; m < plan_.num_micro_batches(); ++m) {
    const TokenBatch batch = value_or_throw(plan_.load(m));
    if (batch.rows > 0)
      local += model_.evaluate(to_micro_batch(batch, cut_));
    else
      weights_.pass_through();  // peers may need this rank's part of the weights
  }
  const StepSums sums =
      sum_over_ranks(comms_, {.loss_sum = local.loss, .valid_tokens = static_cast<double>(local.tokens)});
  return {.step = step, .loss = sums.mean_loss(), .tokens = static_cast<std::int64_t>(sums.valid_tokens)};
}

}  // namespace llmtrain
