#include "llmtrain/train/rank_totals.hpp"

#include "llmtrain/tensor/memory_pool.hpp"

namespace llmtrain {

void report_totals(RankContext& context,
                   const std::vector<CommTrace::Total>& totals,
                   const FlatParameters& parameters,
                   const Optimizer& optimizer) {
  const int rank = context.request.rank;
  for (const CommTrace::Total& total : totals)
    context.events.emit(CommTotals{.rank = rank,
                                   .axis = total.axis,
                                   .op = total.op,
                                   .count = total.count,
                                   .bytes = total.bytes,
                                   .exposed_ms = total.exposed_ms});
  const BufferBytes buffers = parameters.bytes();
  const std::int64_t state = buffers.masters + optimizer.state_bytes();
  const bool offloads = context.spec.memory.offload_optimizer == OptimizerOffload::kCpu;
  context.events.emit(MemoryReport{.rank = rank,
                                   .params = buffers.weights,
                                   .grads = buffers.grads,
                                   .optimizer = offloads ? 0 : state,
                                   .host_optimizer = offloads ? state : 0,
                                   .activations_peak = host_memory(MemoryPool::kActivations).peak_bytes});
  const BlackBox& box = *context.black_box;
  context.events.emit(PhaseTotals{.rank = rank,
                                  .data_wait_ms = box.milliseconds_in(Phase::kDataWait),
                                  .stage_wait_ms = box.milliseconds_in(Phase::kStageWait),
                                  .forward_ms = box.milliseconds_in(Phase::kForward),
                                  .backward_ms = box.milliseconds_in(Phase::kBackward),
                                  .reduce_ms = box.milliseconds_in(Phase::kReduce),
                                  .optimizer_ms = box.milliseconds_in(Phase::kOptimizer),
                                  .evaluate_ms = box.milliseconds_in(Phase::kEvaluate),
                                  .save_ms = box.milliseconds_in(Phase::kSaving)});
}

}  // namespace llmtrain
