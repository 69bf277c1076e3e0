#include <fmt/format.h>

#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/spec/enum_names.hpp"

#include "rules.hpp"

namespace llmtrain {
namespace {

using Unit = Quantity::Unit;

bool fits_duration(Rules& rules) {
  const Quantity& duration = rules.spec.train.duration;
  if (!rules.usable({"train.duration"})) return false;
  if (!rules.given("train.duration")) {
    rules.error("train.duration", "missing; for example `1000 steps` or `100B tokens`");
  } else if (duration.unit == Unit::kPercent) {
    rules.error(
        "train.duration",
        fmt::format("= {}: a share of itself; allowed: steps, tokens or samples", to_string(duration)));
  } else if (duration.amount < 1) {
    rules.error("train.duration", fmt::format("= {}: allowed: at least 1", to_string(duration)));
  } else {
    return true;
  }
  return false;
}

void check_optimizer(Rules& rules) {
  const OptimizerSpec& o = rules.spec.optimizer;
  const bool adamw = o.name == OptimizerKind::kAdamW;
  if (adamw && rules.given("optimizer.momentum"))
    rules.warning("optimizer.momentum", "has no effect under adamw; its betas play that part");
  for (const char* field : {"optimizer.betas", "optimizer.eps"})
    if (!adamw && rules.given(field)) rules.warning(field, "has no effect under sgd");
  for (std::size_t i = 0; i < o.betas.size(); ++i)
    if (o.betas[i] >= 1)
      rules.error(
          "optimizer.betas",
          fmt::format("[{}] = {}: the average would never move; allowed: less than 1", i, o.betas[i]));
  if (o.momentum >= 1)
    rules.error("optimizer.momentum",
                fmt::format("= {}: the velocity would never decay; allowed: less than 1", o.momentum));
  if (o.weight_decay == 0 && o.decay_embeddings)
    rules.warning("optimizer.decay_embeddings", "has no effect: optimizer.weight_decay is 0");
  if (o.lr == 0) rules.warning("optimizer.lr", "= 0: weights will not change");
}

}  // namespace

void check_training(Rules& rules) {
  check_optimizer(rules);
  check_resilience(rules);
  const CheckpointSpec& checkpoint = rules.spec.checkpoint;
  if (checkpoint.keep_every.amount > 0 && checkpoint.keep_last == 0)
    rules.warning("checkpoint.keep_every", "has no effect: checkpoint.keep_last is 0, which keeps all");
  if (checkpoint.keep_every.amount > 0 && checkpoint.interval.amount == 0)
    rules.warning("checkpoint.keep_every",
                  "has no effect: checkpoint.interval is 0, so only the last step is saved");
}

void check_schedule(Rules& rules) {
  const LrScheduleSpec& schedule = rules.spec.lr_schedule;
  if (schedule.style != LrStyle::kWsd && rules.given("lr_schedule.decay"))
    rules.warning(
        "lr_schedule.decay",
        fmt::format("has no effect on the style {}; only wsd has a decay phase", name_of(schedule.style)));
  if (schedule.style == LrStyle::kConstant && rules.given("lr_schedule.min_lr_ratio"))
    rules.warning("lr_schedule.min_lr_ratio", "has no effect on the style constant");
  if (!fits_duration(rules) ||
      !rules.usable({"batch", "parallelism", "launch", "data.seq_length", "lr_schedule"}))
    return;

  const RunPlan plan = plan_run(rules.spec);
  const auto in_steps = [](const Quantity& quantity, std::int64_t steps) {
    return quantity.unit == Unit::kSteps ? to_string(quantity)
                                         : fmt::format("{} = {} steps", to_string(quantity), steps);
  };
  const std::string total = in_steps(rules.spec.train.duration, plan.total_steps);
  if (plan.warmup_steps > plan.total_steps) {
    rules.error(
        "lr_schedule.warmup",
        fmt::format(
            "= {}: longer than train.duration = {}", in_steps(schedule.warmup, plan.warmup_steps), total));
  } else if (plan.warmup_steps + plan.decay_steps > plan.total_steps) {
    rules.error("lr_schedule.decay",
                fmt::format("= {}: with lr_schedule.warmup = {} longer than train.duration = {}",
                            in_steps(schedule.decay, plan.decay_steps),
                            in_steps(schedule.warmup, plan.warmup_steps),
                            total));
  }
  if (plan.checkpoint_interval > 0 && plan.keep_every % plan.checkpoint_interval != 0)
    rules.warning("checkpoint.keep_every",
                  fmt::format("= {}: not a multiple of checkpoint.interval = {}; only steps that are "
                              "multiples of both are kept",
                              in_steps(rules.spec.checkpoint.keep_every, plan.keep_every),
                              in_steps(rules.spec.checkpoint.interval, plan.checkpoint_interval)));
}

void check_required(Rules& rules) {
  for (const char* path : {"version", "model", "data", "batch"})
    if (!rules.given(path))
      rules.error(path, "missing; a job needs version, model, data, batch and train.duration");
}

}  // namespace llmtrain
