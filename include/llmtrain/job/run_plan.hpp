#pragma once

#include <cstdint>

#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/topology/mesh.hpp"

// The arithmetic of a run: how many ranks, how many tokens a step, how many steps for what.
//
// A pure function of a resolved spec. All amounts are in steps here; 0 means never.
namespace llmtrain {

struct RunPlan {
  MeshShape mesh;
  int world_size = 1;
  int nodes = 1;
  int procs_per_node = 1;

  std::int64_t micro_batch_size = 1;   // sequences
  std::int64_t accumulation = 1;       // micro-batches of one rank in a step
  std::int64_t global_batch_size = 1;  // sequences of all ranks in a step
  std::int64_t tokens_per_step = 1;

  std::int64_t total_steps = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // wsd; 0 for the other styles
  std::int64_t eval_interval = 0;
  std::int64_t checkpoint_interval = 0;
  std::int64_t keep_every = 0;

  friend bool operator==(const RunPlan&, const RunPlan&) = default;
};

// `spec` must be resolved (LoadedJob::spec, parse_resolved).
RunPlan plan_run(const JobSpec& spec);

// The nodes that the job's mesh is cut for: of MIN:MAX the fewest, so that those beyond wait as spares, or
// the most when the job is elastic and goes on with fewer.
int mesh_nodes(const JobSpec& spec);

// Whether something that happens every `interval` steps happens after step k; never when interval is 0.
constexpr bool is_due(std::int64_t k, std::int64_t interval) {
  return interval > 0 && k % interval == 0;
}

// An amount in steps, rounded up; percent is of `total_steps`.
std::int64_t steps_of(const Quantity& quantity,
                      std::int64_t tokens_per_step,
                      std::int64_t global_batch_size,
                      std::int64_t total_steps);

}  // namespace llmtrain
