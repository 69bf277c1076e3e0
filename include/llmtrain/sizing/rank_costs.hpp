#pragma once

#include "llmtrain/sizing/shard_traffic.hpp"
#include "llmtrain/spec/job_spec.hpp"

namespace llmtrain {

// What a job's layout makes its first rank hold and, in one step, give to its gradient group. Activations,
// and what tensor-parallel ranks exchange, come on top.
struct RankCosts {
  StaticMemory memory;
  ShardTraffic step;
};

// `spec` is resolved and valid.
RankCosts rank_costs(const JobSpec& spec);

}  // namespace llmtrain
