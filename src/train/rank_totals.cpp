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
  MemoryReport memory{.rank = rank,
                      .optimizer = optimizer.state_bytes(),
                      .activations_peak = host_memory(MemoryPool::kActivations).peak_bytes};
  for (SegmentIndex s = 0; s < parameters.num_segments(); ++s) {
    const SegmentParameters& segment = parameters.segment(s);
    memory.params += static_cast<std::int64_t>(segment.weights.nbytes());
    memory.grads += static_cast<std::int64_t>(segment.grads.nbytes());
    if (parameters.has_separate_masters())
      memory.optimizer += static_cast<std::int64_t>(segment.masters.nbytes());
  }
  context.events.emit(memory);
}

}  // namespace llmtrain
