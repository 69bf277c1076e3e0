#include "llmtrain/doctor/job_needs.hpp"

#include <algorithm>

#include "llmtrain/core/check.hpp"
#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/sizing/rank_costs.hpp"

namespace llmtrain {
namespace {

// A worker that has done nothing yet: the pages of its libraries that are its own.
constexpr std::uint64_t kWorkerBytes = 96ull << 20;
constexpr std::uint64_t kAgentBytes = 16ull << 20;

constexpr std::uint64_t kBaseFiles = 48;        // of any process of the run
constexpr std::uint64_t kFilesPerWorker = 8;    // of the agent: process, sockets, pages, streams
constexpr std::uint64_t kSocketsPerPeer = 2;    // of a worker, over nodes
constexpr std::uint64_t kThreadsPerWorker = 8;  // that do not compute

std::uint64_t bytes(std::int64_t value) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, value));
}

std::uint64_t on_host(const StaticMemory& memory, bool cuda) {
  if (cuda) return bytes(memory.host_optimizer);
  return bytes(memory.params) + bytes(memory.grads) + bytes(memory.optimizer) + bytes(memory.host_optimizer);
}

}  // namespace

JobNeeds needs_of(const JobSpec& spec) {
  const RunPlan plan = plan_run(spec);
  const auto pipeline = plan_pipeline(spec);
  LLMTRAIN_CHECK(pipeline.ok(), "{}", pipeline ? "" : to_string(pipeline.error()));
  JobNeeds needs;
  needs.run_dir = spec.run.dir;
  needs.cuda = spec.run.device == Device::kCuda;
  needs.nodes = plan.nodes;
  needs.ranks = plan.procs_per_node;
  needs.world_size = plan.world_size;
  const auto ranks = static_cast<std::uint64_t>(needs.ranks);
  std::uint64_t largest = 0;
  for (int stage = 0; stage < spec.parallelism.pp; ++stage) {
    const RankCosts costs = rank_costs(spec, pipeline->schedule, pipeline->segments, stage);
    largest = std::max(largest, on_host(costs.memory, needs.cuda));
    // Weights, masters and moments are saved; ranks that shard them hold a part each, copies are saved once.
    const ParallelismSpec& p = spec.parallelism;
    const auto shards = static_cast<std::uint64_t>(std::max(1, p.dp_shard.value_or(plan.mesh.dp)));
    const std::uint64_t state = bytes(costs.memory.optimizer) + bytes(costs.memory.host_optimizer);
    needs.checkpoint_bytes +=
        static_cast<std::uint64_t>(p.tp) * (bytes(costs.memory.params) * (p.zero_stage == 3 ? shards : 1) +
                                            state * (p.zero_stage > 0 ? shards : 1));
  }
  needs.memory = kAgentBytes + ranks * (kWorkerBytes + largest);
  needs.checkpoints_kept = std::max(1, spec.checkpoint.keep_last) + 1;
  const int threads = std::max(1, spec.train.compute_threads);
  needs.threads = needs.ranks * threads;
  needs.processes = ranks * (static_cast<std::uint64_t>(threads) + kThreadsPerWorker);
  const auto peers = static_cast<std::uint64_t>(needs.nodes > 1 ? needs.world_size - 1 : 0);
  needs.open_files = kBaseFiles + std::max(kFilesPerWorker * ranks, kSocketsPerPeer * peers + 16);
  return needs;
}

}  // namespace llmtrain
