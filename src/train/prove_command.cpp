#include <cstdio>
#include <iterator>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/certificate.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/plants.hpp"
#include "llmtrain/job/prove_request.hpp"
#include "llmtrain/job/shrink_job.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/inference_fence.hpp"
#include "llmtrain/train/proof_ranks.hpp"
#include "llmtrain/train/proof_reference.hpp"
#include "llmtrain/train/prove.hpp"

namespace llmtrain {
namespace {

// fp64 rounds at 1e-16; a sum in another order, and an optimizer behind it, stay far below this.
constexpr double kTolerance = 1e-9;

// Of every step, on one rank.
std::vector<ProofReference> reference_of(const JobSpec& spec) {
  std::vector<ProofReference> steps;
  run_proof_ranks(one_rank_job(spec), Plant::kNone, [&steps](const RankContext& context, Rank& rank) {
    for (std::int64_t k = 1; k <= context.plan.total_steps; ++k)
      steps.emplace_back(k, rank.trainer().advance(), rank);
  });
  return steps;
}

BatchShape batch_of(const RankContext& context) {
  return {.global_batch_size = context.plan.global_batch_size,
          .micro_batch_size = context.plan.micro_batch_size,
          .dp_rank = coord_of(context.plan.mesh, context.request.rank).dp,
          .dp_size = context.plan.mesh.dp};
}

// Every rank compares what it holds; nothing is sent for it.
std::vector<Comparison> compare_layout(const JobSpec& spec,
                                       Plant plant,
                                       const std::vector<ProofReference>& reference) {
  std::mutex mutex;
  std::vector<Comparison> all;
  run_proof_ranks(spec, plant, [&](const RankContext& context, Rank& rank) {
    for (const ProofReference& step : reference) {
      const auto own = step.compare(rank.trainer().advance(), rank, context.request.rank, batch_of(context));
      const std::lock_guard lock(mutex);
      all.insert(all.end(), own.begin(), own.end());
    }
  });
  return all;
}

Certificate prove(const ProveRequest& request) {
  Certificate certificate{
      .original = value_or_throw(parse_resolved(request.original_yaml, "the prove request")),
      .proved = value_or_throw(parse_resolved(request.spec_yaml, "the prove request")),
      .plant = request.plant,
      .verdict = {}};
  const Plant plant = request.plant.empty() ? Plant::kNone : value_or_throw(find_plant(request.plant)).plant;
  const std::vector<ProofReference> reference = reference_of(certificate.proved);
  certificate.verdict = judge(compare_layout(certificate.proved, plant, reference), kTolerance);
  return certificate;
}

}  // namespace

int run_prove(const std::string& request_json) {
  bool equal = false;
  const int code = fenced("prove", [&] {
    const ProveRequest request = value_or_throw(prove_request_from_json(request_json));
    const Certificate certificate = prove(request);
    equal = certificate.verdict.ok();
    fmt::print("{}", request.json ? to_json(certificate) + "\n" : to_text(certificate));
  });
  if (code != to_int(ExitCode::kDone)) return code;
  return to_int(equal ? ExitCode::kDone : ExitCode::kDifferent);
}

}  // namespace llmtrain
