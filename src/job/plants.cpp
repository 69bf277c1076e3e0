#include "llmtrain/job/plants.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/placement/shard.hpp"

namespace llmtrain {
namespace {

using Overrides = std::vector<std::string>;

Overrides& operator+=(Overrides& list, Overrides more) {
  std::move(more.begin(), more.end(), std::back_inserter(list));
  return list;
}

// Every degree as it is, but for the one in question; the batch grows with the ranks.
Overrides with_axis_of_two(const JobSpec& spec, int ParallelismSpec::*axis, std::string_view name) {
  const ParallelismSpec& p = spec.parallelism;
  if (p.*axis > 1) return {};
  Overrides list = {fmt::format("parallelism.{}=2", name), "launch.procs_per_node=auto", "launch.nodes=1"};
  list.push_back(fmt::format("parallelism.dp={}", p.dp.value()));
  return list;
}

Overrides with_accumulation(std::int64_t micro_batches) {
  return {fmt::format("batch.gradient_accumulation_steps={}", micro_batches), "batch.global_batch_size=auto"};
}

Overrides tp(const JobSpec& spec) {
  return with_axis_of_two(spec, &ParallelismSpec::tp, "tp");
}

Overrides sp(const JobSpec& spec) {
  return with_axis_of_two(spec, &ParallelismSpec::sp, "sp");
}

Overrides pp(const JobSpec& spec) {
  return with_axis_of_two(spec, &ParallelismSpec::pp, "pp");
}

Overrides dp(const JobSpec& spec) {
  if (spec.parallelism.dp.value() > 1) return {};
  Overrides list = {"parallelism.dp=2", "launch.procs_per_node=auto", "launch.nodes=1"};
  return list += with_accumulation(spec.batch.gradient_accumulation_steps.value());
}

Overrides ranks(const JobSpec& spec) {
  const ParallelismSpec& p = spec.parallelism;
  return p.pp * p.dp.value() * p.sp * p.tp > 1 ? Overrides() : dp(spec);
}

Overrides row_bias(const JobSpec& spec) {
  Overrides list = tp(spec);
  if (!spec.model.attention_out_bias && !spec.model.mlp_bias) list += {"model.attention_out_bias=true"};
  return list;
}

Overrides position_rows(const JobSpec& spec) {
  Overrides list = tp(spec);
  if (spec.model.position != PositionKind::kLearned) list += {"model.position=learned"};
  return list;
}

Overrides shared_heads(const JobSpec& spec) {
  Overrides list = tp(spec);
  if (!list.empty() || kv_head_replicas(spec.model, spec.parallelism.tp) == 1)
    list += {"model.num_kv_heads=1"};
  return list;
}

Overrides partial_norms(const JobSpec& spec) {
  Overrides list = tp(spec);
  if (!list.empty() || !(spec.parallelism.tp_shard_sequence || spec.model.qk_norm))
    list += {"model.qk_norm=true"};
  return list;
}

Overrides tied(const JobSpec& spec) {
  return spec.model.tie_embeddings ? Overrides() : Overrides{"model.tie_embeddings=true"};
}

// Stages in the shape of a V hold both ends of the model together.
Overrides tied_stages(const JobSpec& spec) {
  Overrides list = pp(spec);
  list += tied(spec);
  if (spec.parallelism.schedule == "zbv")
    list += {"parallelism.schedule=1f1b", "parallelism.virtual_stages=auto", "parallelism.stage_layers=auto"};
  return list;
}

Overrides accumulation(const JobSpec& spec) {
  return spec.batch.gradient_accumulation_steps.value() > 1 ? Overrides() : with_accumulation(2);
}

Overrides rope(const JobSpec& spec) {
  return spec.model.position == PositionKind::kRope ? Overrides() : Overrides{"model.position=rope"};
}

Overrides rope_and_ranks(const JobSpec& spec) {
  Overrides list = ranks(spec);
  return list += rope(spec);
}

Overrides rope_and_sp(const JobSpec& spec) {
  Overrides list = sp(spec);
  return list += rope(spec);
}

Overrides sharded_state(const JobSpec& spec) {
  const ParallelismSpec& p = spec.parallelism;
  Overrides list = p.dp.value() * p.sp > 1 ? Overrides() : dp(spec);
  if (p.zero_stage == 0) list += {"parallelism.zero_stage=1"};
  if (p.dp_shard == 1) list += {"parallelism.dp_shard=auto"};
  return list;
}

constexpr std::array kPlants = {
    PlantEntry{
        Plant::kRegionSum, "region-sum", "sums at the borders of tensor-parallel regions are left out", tp},
    PlantEntry{Plant::kRowBias, "row-bias", "every tp rank adds the bias of a row-parallel layer", row_bias},
    PlantEntry{
        Plant::kPositionRows, "position-rows", "every tp rank adds the learned positions", position_rows},
    PlantEntry{Plant::kKvGradients,
               "kv-gradients",
               "gradients of shared key/value heads are not summed",
               shared_heads},
    PlantEntry{Plant::kNormGradients,
               "norm-gradients",
               "gradients of norms that tp ranks see in parts are not summed",
               partial_norms},
    PlantEntry{Plant::kNormReplicas,
               "norm-replicas",
               "the gradient norm counts what tp ranks hold alike once for each",
               tp},
    PlantEntry{Plant::kNormLocal, "norm-local", "the gradient norm is that of each tp rank's own part", tp},
    PlantEntry{
        Plant::kNormStages, "norm-stages", "the gradient norm is that of each pipeline stage's own part", pp},
    PlantEntry{Plant::kTiedTwice, "tied-twice", "the gradient norm counts a tied embedding twice", tied},
    PlantEntry{Plant::kTiedStages,
               "tied-stages",
               "the gradient of an embedding that two pipeline stages share is not summed",
               tied_stages},
    PlantEntry{Plant::kStageGradient,
               "stage-gradient",
               "the gradient of a step's first micro-batch does not reach the pipeline stage before",
               pp},
    PlantEntry{Plant::kPaddingRow,
               "padding-row",
               "the loss counts a row of padding behind the tp ranks' parts of the vocabulary",
               tp},
    PlantEntry{Plant::kLastMicroBatch,
               "last-micro-batch",
               "the gradient of a step's last micro-batch is dropped",
               accumulation},
    PlantEntry{Plant::kLossScale,
               "loss-scale",
               "the last dp rank divides by its own tokens, not by the global batch's",
               dp},
    PlantEntry{Plant::kSequenceLossScale,
               "sequence-loss-scale",
               "every sp rank divides by its own tokens, not by the whole sequence's",
               sp},
    PlantEntry{
        Plant::kLossCount, "loss-count", "every tp rank counts the loss that the ranks compute together", tp},
    PlantEntry{Plant::kRopeBase,
               "rope-base",
               "the last rank turns its heads with another rotary base",
               rope_and_ranks},
    PlantEntry{Plant::kRopeOffset,
               "rope-offset",
               "every sp rank counts positions as the first one does",
               rope_and_sp},
    PlantEntry{Plant::kWrongSample, "wrong-sample", "the last dp rank reads the samples of the first", dp},
    PlantEntry{Plant::kStaleWeights, "stale-weights", "the last rank misses the update of step 2", ranks},
    PlantEntry{Plant::kStaleGather,
               "stale-gather",
               "sharded weights that were gathered before the update of step 2 are used after it",
               sharded_state},
    PlantEntry{Plant::kOtherInit, "other-init", "the last rank starts from another seed's weights", ranks},
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
