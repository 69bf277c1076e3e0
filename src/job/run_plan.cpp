#include "llmtrain/job/run_plan.hpp"

#include <cmath>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

std::int64_t steps_of(const Quantity& quantity,
                      std::int64_t tokens_per_step,
                      std::int64_t global_batch_size,
                      std::int64_t total_steps) {
  const double amount = quantity.amount;
  double result = amount;
  switch (quantity.unit) {
    case Quantity::Unit::kSteps: break;
    case Quantity::Unit::kTokens: result = amount / static_cast<double>(tokens_per_step); break;
    case Quantity::Unit::kSamples: result = amount / static_cast<double>(global_batch_size); break;
    // Multiplied first: a percentage of a round number of steps must not pick up a rounding error.
    case Quantity::Unit::kPercent: result = amount * static_cast<double>(total_steps) / 100.0; break;
  }
  return static_cast<std::int64_t>(std::ceil(result));
}

int mesh_nodes(const JobSpec& spec) {
  return spec.resilience.elastic ? spec.launch.nodes.max : spec.launch.nodes.min;
}

RunPlan plan_run(const JobSpec& spec) {
  LLMTRAIN_CHECK(spec.parallelism.dp && spec.launch.procs_per_node &&
                     spec.batch.gradient_accumulation_steps && spec.batch.global_batch_size,
                 "plan_run needs a resolved spec");
  RunPlan plan;
  plan.mesh = {.pp = spec.parallelism.pp,
               .dp = *spec.parallelism.dp,
               .sp = spec.parallelism.sp,
               .tp = spec.parallelism.tp};
  plan.world_size = plan.mesh.world_size();
  plan.nodes = mesh_nodes(spec);
  plan.procs_per_node = *spec.launch.procs_per_node;
  plan.micro_batch_size = spec.batch.micro_batch_size;
  plan.accumulation = *spec.batch.gradient_accumulation_steps;
  plan.global_batch_size = *spec.batch.global_batch_size;
  plan.tokens_per_step = plan.global_batch_size * spec.data.seq_length;

  plan.total_steps = steps_of(spec.train.duration, plan.tokens_per_step, plan.global_batch_size, 0);
  const auto in_steps = [&plan](const Quantity& quantity) {
    return steps_of(quantity, plan.tokens_per_step, plan.global_batch_size, plan.total_steps);
  };
  plan.warmup_steps = in_steps(spec.lr_schedule.warmup);
  if (spec.lr_schedule.style == LrStyle::kWsd) plan.decay_steps = in_steps(spec.lr_schedule.decay);
  plan.eval_interval = in_steps(spec.train.eval_interval);
  plan.checkpoint_interval = in_steps(spec.checkpoint.interval);
  plan.keep_every = in_steps(spec.checkpoint.keep_every);
  return plan;
}

}  // namespace llmtrain
