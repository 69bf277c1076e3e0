#pragma once

#include "llmtrain/placement/flat_layout.hpp"
#include "llmtrain/spec/job_spec.hpp"

// How a resolved job spreads its model's state over the gradient group (dp x sp), or over each of the parts
// of it that parallelism.dp_shard makes.
namespace llmtrain {

// Of parallelism.zero_stage, what there is to do: a copy for every rank is what there is without sharding.
int zero_stage(const ParallelismSpec& parallelism);

// `rank`: among those that share one copy.
ZeroPlace zero_place(const ParallelismSpec& parallelism, int rank);

}  // namespace llmtrain
