#include "llmtrain/train/evaluator.hpp"

#include "llmtrain/train/error.hpp"
#include "llmtrain/train/micro_batch.hpp"
#include "llmtrain/train/step_sums.hpp"

namespace llmtrain {

EvalReport Evaluator::run(std::int64_t step) {
  const LossSums local = pipeline_.evaluate(static_cast<int>(plan_.num_micro_batches()), [this](int m) {
    return to_micro_batch(value_or_throw(plan_.load(m)), cut_);
  });
  const StepSums sums =
      sum_over_ranks(comms_, {.loss_sum = local.loss, .valid_tokens = static_cast<double>(local.tokens)});
  return {.step = step, .loss = sums.mean_loss(), .tokens = static_cast<std::int64_t>(sums.valid_tokens)};
}

}  // namespace llmtrain
