#include "llmtrain/job/fit_nodes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

Error misfit(int nodes, std::string why) {
  return {ErrorCode::kInvalidSpec,
          fmt::format("the job does not fit on {} nodes: {}", nodes, why),
          "it waits for a node, or for another launch with another layout"};
}

}  // namespace

Result<JobSpec> fit_to_nodes(const JobSpec& resolved, int nodes) {
  LLMTRAIN_CHECK(nodes >= 1, "a job on {} nodes", nodes);
  LLMTRAIN_CHECK(
      resolved.launch.procs_per_node && resolved.parallelism.dp && resolved.batch.global_batch_size,
      "fit_to_nodes needs a resolved spec");
  JobSpec spec = resolved;
  ParallelismSpec& p = spec.parallelism;
  const int world = nodes * *spec.launch.procs_per_node;
  const int inner = p.pp * p.sp * p.tp;
  if (world % inner != 0)
    return misfit(nodes,
                  fmt::format("{} ranks are no multiple of pp {} x sp {} x tp {}", world, p.pp, p.sp, p.tp));
  p.dp = world / inner;
  const std::int64_t global = *spec.batch.global_batch_size;
  const std::int64_t unit = spec.batch.micro_batch_size * *p.dp;
  if (global % unit != 0)
    return misfit(
        nodes,
        fmt::format("batch.global_batch_size {} is no multiple of batch.micro_batch_size {} x dp {}",
                    global,
                    spec.batch.micro_batch_size,
                    *p.dp));
  spec.batch.gradient_accumulation_steps = global / unit;
  spec.launch.nodes = nodes;
  if (p.dp_shard) {
    // The copies of what is sharded change, and what one rank holds grows as little as it can.
    const int group = *p.dp * p.sp;
    int share = std::min(*p.dp_shard, group);
    while (group % share != 0) --share;
    p.dp_shard = share;
  }
  return spec;
}

}  // namespace llmtrain
