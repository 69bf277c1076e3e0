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
  context.events.emit(MemoryReport{.rank = rank,
                                   .params = buffers.weights,
                                   .grads = buffers.grads,
                                   .optimizer = buffers.masters + optimizer.state_bytes(),
                                   .activations_peak = host_memory(MemoryPool::kActivations).peak_bytes});
}

}  // namespace llmtrain
