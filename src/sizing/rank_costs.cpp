#include "llmtrain/sizing/rank_costs.hpp"

#include "llmtrain/core/division.hpp"
#include "llmtrain/placement/recompute.hpp"
#include "llmtrain/placement/stage_table.hpp"
#include "llmtrain/placement/zero_place.hpp"
#include "llmtrain/schedule/held_by_stage.hpp"

namespace llmtrain {
namespace {

// The model as a stage sees it.
struct StageModel {
  ModelSpec model;  // with the layers of the stage
  bool has_embedding = false;
  bool has_head = false;
  std::int64_t recomputed = 0;  // blocks that are computed again in backward
};

StageModel stage_model(ModelSpec model, const MemorySpec& memory, const std::vector<SegmentRange>& chunks) {
  const auto head = static_cast<SegmentIndex>(model.num_layers) + 1;
  StageModel part{.model = std::move(model)};
  part.model.num_layers = 0;
  for (const SegmentRange& chunk : chunks) {
    const bool first = chunk.contains(0), last = chunk.contains(head);
    part.has_embedding |= first;
    part.has_head |= last;
    const std::int64_t blocks = chunk.size() - (first ? 1 : 0) - (last ? 1 : 0);
    part.model.num_layers += blocks;
    part.recomputed += recomputed_blocks(memory, blocks);
  }
  return part;
}

Traffic times(std::int64_t n, const Traffic& traffic) {
  return {.calls = n * traffic.calls, .bytes = n * traffic.bytes};
}

// Of `n` micro-batches.
TensorTraffic tensor_step(const JobSpec& spec, const StageModel& part, std::int64_t tokens, std::int64_t n) {
  const ParallelismSpec& p = spec.parallelism;
  if (p.tp == 1) return {};
  const bool in_full = spec.memory.recompute == Recompute::kFull;
  const TensorTraffic one = training_traffic(part.model,
                                             {.compute = spec.precision.compute,
                                              .tp = p.tp,
                                              .shard_sequence = p.tp_shard_sequence,
                                              .tokens = tokens,
                                              .chunk_tokens = tokens,
                                              .recomputed_in_full = in_full ? part.recomputed : 0,
                                              .overlap_chunks = p.tp_overlap_chunks.value_or(1),
                                              .has_embedding = part.has_embedding,
                                              .has_head = part.has_head});
  return {.all_reduce = times(n, one.all_reduce),
          .all_gather = times(n, one.all_gather),
          .reduce_scatter = times(n, one.reduce_scatter)};
}

SequenceTraffic sequence_step(const JobSpec& spec,
                              const StageModel& part,
                              std::int64_t tokens,
                              std::int64_t n) {
  const ParallelismSpec& p = spec.parallelism;
  const SequenceTraffic one = training_traffic(part.model,
                                               {.method = p.sp_method,
                                                .compute = spec.precision.compute,
                                                .sp = p.sp,
                                                .tp = p.tp,
                                                .tokens = tokens,
                                                .recomputed = part.recomputed});
  return {.send_recv = times(n, one.send_recv),
          .all_gather = times(n, one.all_gather),
          .reduce_scatter = times(n, one.reduce_scatter),
          .all_to_all = times(n, one.all_to_all)};
}

}  // namespace

RankCosts rank_costs(const JobSpec& spec,
                     const Schedule& schedule,
                     std::span<const SegmentRange> segments,
                     int stage) {
  const ParallelismSpec& p = spec.parallelism;
  const DType compute = spec.precision.compute;
  const TensorPlace place{.rank = 0, .size = p.tp};
  const ZeroPlace zero = zero_place(p, 0);
  const std::vector<SegmentRange> chunks = held_by_stage(schedule.map, segments, stage);
  const auto table =
      stage_table(parameter_table(spec.model, {.shard_sequence = p.tp_shard_sequence}), chunks);
  const StageModel part = stage_model(spec.model, spec.memory, chunks);
  const std::int64_t tokens = spec.batch.micro_batch_size * exact_div(spec.data.seq_length, p.sp);
  const StepShape step{.accumulation = schedule.num_micro_batches,
                       .program = schedule.program(stage),
                       .chunks = chunks,
                       .bucket = p.bucket_size};
  const StaticMemory held = static_memory(table, compute, spec.optimizer, place, zero);
  RankCosts costs{.layers = part.model.num_layers,
                  .memory = spec.memory.offload_optimizer == OptimizerOffload::kCpu
                                ? with_offloaded_optimizer(held)
                                : held,
                  .kept = in_flight(schedule)[static_cast<std::size_t>(stage)],
                  .gradient = step_traffic(table, {compute, *spec.precision.reduce}, step, zero, place),
                  .tensor = tensor_step(spec, part, tokens, schedule.num_micro_batches),
                  .sequence = sequence_step(spec, part, tokens, schedule.num_micro_batches),
                  .pipeline = pipeline_traffic(schedule,
                                               stage,
                                               {.compute = compute,
                                                .tokens = tokens / (p.tp_shard_sequence ? p.tp : 1),
                                                .width = spec.model.hidden_size}),
                  .tied = {}};
  if (is_tied_over_stages(spec.model, schedule.map) && (part.has_embedding || part.has_head))
    costs.tied = tied_traffic(flat_layout(table, place, zero), compute);
  return costs;
}

}  // namespace llmtrain
