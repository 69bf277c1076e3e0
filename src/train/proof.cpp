#include "llmtrain/train/proof.hpp"

#include <mutex>

#include "llmtrain/job/shrink_job.hpp"
#include "llmtrain/train/proof_ranks.hpp"

namespace llmtrain {
namespace {

BatchShape batch_of(const RankContext& context) {
  return {.global_batch_size = context.plan.global_batch_size,
          .micro_batch_size = context.plan.micro_batch_size,
          .dp_rank = coord_of(context.plan.mesh, context.request.rank).dp,
          .dp_size = context.plan.mesh.dp};
}

}  // namespace

std::vector<ProofReference> compute_reference(const JobSpec& spec) {
  std::vector<ProofReference> steps;
  run_proof_ranks(one_rank_job(spec), Plant::kNone, [&steps](const RankContext& context, Rank& rank) {
    for (std::int64_t k = 1; k <= context.plan.total_steps; ++k)
      steps.emplace_back(k, rank.trainer().advance(), rank);
  });
  return steps;
}

Verdict compare_ranks(const JobSpec& spec,
                      const std::vector<ProofReference>& reference,
                      double tolerance,
                      Plant plant) {
  std::mutex mutex;
  std::vector<Comparison> all;
  run_proof_ranks(spec, plant, [&](const RankContext& context, Rank& rank) {
    for (const ProofReference& step : reference) {
      const auto own = step.compare(rank.trainer().advance(), rank, context.request.rank, batch_of(context));
      const std::lock_guard lock(mutex);
      all.insert(all.end(), own.begin(), own.end());
    }
  });
  return judge(all, tolerance);
}

}  // namespace llmtrain
