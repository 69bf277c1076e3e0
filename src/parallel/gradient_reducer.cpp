#include "llmtrain/parallel/gradient_reducer.hpp"

#include "llmtrain/core/check.hpp"

namespace llmtrain {

GradientReducer::GradientReducer(const FlatParameters& parameters, Communicator& group)
    : parameters_(parameters), group_(group), pending_(static_cast<std::size_t>(parameters.num_segments())) {
  const ZeroPlace zero = parameters.zero();
  LLMTRAIN_CHECK(zero.parts() == 1 || (zero.size == group.size() && zero.rank == group.rank()),
                 "gradients sharded for rank {} of {} in a group where it is rank {} of {}",
                 zero.rank,
                 zero.size,
                 group.rank(),
                 group.size());
}

void GradientReducer::on_gradient_ready(SegmentIndex segment) {
  const SegmentParameters& part = parameters_.segment(segment);
  std::unique_ptr<Pending>& pending = pending_[static_cast<std::size_t>(segment)];
  LLMTRAIN_CHECK(pending == nullptr, "segment {} was announced twice in one step", segment);
  at::Tensor whole = part.grads;    // [padded numel]
  at::Tensor own = part.own_grads;  // [own]
  pending = parameters_.zero().shards_optimizer() ? group_.reduce_scatter_async(whole, own, ReduceOp::kSum)
                                                  : group_.all_reduce_async(whole, ReduceOp::kSum);
}

void GradientReducer::finish() {
  for (std::size_t segment = 0; segment < pending_.size(); ++segment)
    LLMTRAIN_CHECK(pending_[segment] != nullptr, "the gradient of segment {} was never announced", segment);
  // Backward goes from the last segment to the first, and so do the reductions.
  for (auto it = pending_.rbegin(); it != pending_.rend(); ++it) (*it)->wait();
  for (auto& pending : pending_) pending.reset();
}

}  // namespace llmtrain
