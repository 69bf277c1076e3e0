#include "llmtrain/job/plants.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/placement/shard.hpp"

namespace llmtrain {
namespace {

std::string_view needs_tp(const JobSpec& spec) {
  return spec.parallelism.tp > 1 ? "" : "parallelism.tp is 1: no rank holds a part of a layer";
}

std::string_view needs_dp(const JobSpec& spec) {
  return spec.parallelism.dp.value() > 1 ? "" : "parallelism.dp is 1: one rank reads every sample";
}

std::string_view needs_ranks(const JobSpec& spec) {
  const ParallelismSpec& p = spec.parallelism;
  return p.pp * p.dp.value() * p.sp * p.tp > 1 ? ""
                                               : "the job has one rank, which has no other to differ from";
}

std::string_view needs_row_bias(const JobSpec& spec) {
  if (const auto objection = needs_tp(spec); !objection.empty()) return objection;
  const bool has_bias = spec.model.attention_out_bias || spec.model.mlp_bias;
  return has_bias ? "" : "the model has no bias behind a row-parallel layer";
}

std::string_view needs_position_rows(const JobSpec& spec) {
  if (const auto objection = needs_tp(spec); !objection.empty()) return objection;
  return spec.model.position == PositionKind::kLearned ? "" : "the model has no learned positions";
}

std::string_view needs_shared_heads(const JobSpec& spec) {
  return kv_head_replicas(spec.model, spec.parallelism.tp) > 1
             ? ""
             : "no two tp ranks share a key/value head: model.num_kv_heads is not below parallelism.tp";
}

std::string_view needs_partial_norms(const JobSpec& spec) {
  if (const auto objection = needs_tp(spec); !objection.empty()) return objection;
  return spec.parallelism.tp_shard_sequence || spec.model.qk_norm
             ? ""
             : "every tp rank sees the whole gradient of every norm: no tp_shard_sequence and no qk_norm";
}

std::string_view needs_tied(const JobSpec& spec) {
  return spec.model.tie_embeddings ? "" : "model.tie_embeddings is false";
}

std::string_view needs_accumulation(const JobSpec& spec) {
  return spec.batch.gradient_accumulation_steps.value() > 1 ? "" : "a step has one micro-batch";
}

std::string_view needs_rope(const JobSpec& spec) {
  if (const auto objection = needs_ranks(spec); !objection.empty()) return objection;
  return spec.model.position == PositionKind::kRope ? "" : "the model has no rotary positions";
}

constexpr std::array kPlants = {
    PlantEntry{Plant::kRegionSum,
               "region-sum",
               "sums at the borders of tensor-parallel regions are left out",
               needs_tp},
    PlantEntry{
        Plant::kRowBias, "row-bias", "every tp rank adds the bias of a row-parallel layer", needs_row_bias},
    PlantEntry{Plant::kPositionRows,
               "position-rows",
               "every tp rank adds the learned positions",
               needs_position_rows},
    PlantEntry{Plant::kKvGradients,
               "kv-gradients",
               "gradients of shared key/value heads are not summed",
               needs_shared_heads},
    PlantEntry{Plant::kNormGradients,
               "norm-gradients",
               "gradients of norms that tp ranks see in parts are not summed",
               needs_partial_norms},
    PlantEntry{Plant::kNormReplicas,
               "norm-replicas",
               "the gradient norm counts what tp ranks hold alike once for each",
               needs_tp},
    PlantEntry{
        Plant::kNormLocal, "norm-local", "the gradient norm is that of each tp rank's own part", needs_tp},
    PlantEntry{
        Plant::kTiedTwice, "tied-twice", "the gradient norm counts a tied embedding twice", needs_tied},
    PlantEntry{Plant::kLastMicroBatch,
               "last-micro-batch",
               "the gradient of a step's last micro-batch is dropped",
               needs_accumulation},
    PlantEntry{Plant::kLossScale,
               "loss-scale",
               "the last dp rank divides by its own tokens, not by the global batch's",
               needs_dp},
    PlantEntry{Plant::kLossCount,
               "loss-count",
               "every tp rank counts the loss that the ranks compute together",
               needs_tp},
    PlantEntry{
        Plant::kRopeBase, "rope-base", "the last rank turns its heads with another rotary base", needs_rope},
    PlantEntry{
        Plant::kWrongSample, "wrong-sample", "the last dp rank reads the samples of the first", needs_dp},
    PlantEntry{
        Plant::kStaleWeights, "stale-weights", "the last rank misses the update of step 2", needs_ranks},
    PlantEntry{
        Plant::kOtherInit, "other-init", "the last rank starts from another seed's weights", needs_ranks},
};

}  // namespace

std::span<const PlantEntry> plants() {
  return kPlants;
}

Result<PlantEntry> find_plant(const std::string& name) {
  std::vector<std::string_view> names;
  for (const PlantEntry& entry : kPlants) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  return Error{ErrorCode::kUsage,
               fmt::format("--plant {}: there is no such bug; allowed: {}", name, fmt::join(names, ", ")),
               "`llmtrain prove --list-plants` says what each does"};
}

}  // namespace llmtrain
