#include "llmtrain/sizing/rank_costs.hpp"

namespace llmtrain {

RankCosts rank_costs(const JobSpec& spec) {
  const ParallelismSpec& p = spec.parallelism;
  const int group = p.dp.value() * p.sp;
  const TensorPlace place{.rank = 0, .size = p.tp};
  const bool shards = group > 1 && p.dp_shard != 1;
  const int sharers = shards && p.zero_stage > 0 ? p.dp_shard.value_or(group) : group;
  const ZeroPlace zero{
      .stage = shards ? p.zero_stage : 0, .rank = 0, .size = sharers, .copies = group / sharers};
  const auto table = parameter_table(spec.model, {.shard_sequence = p.tp_shard_sequence});
  const DType compute = spec.precision.compute;
  return {.memory = static_memory(table, compute, spec.optimizer, place, zero),
          .step = step_traffic(table, compute, spec.batch.gradient_accumulation_steps.value(), zero, place)};
}

}  // namespace llmtrain
