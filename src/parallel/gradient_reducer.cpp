#include "llmtrain/parallel/gradient_reducer.hpp"

#include "llmtrain/core/check.hpp"

namespace llmtrain {

GradientReducer::GradientReducer(FlatParameters& parameters, Communicator& group, Communicator& copies)
    : parameters_(parameters),
      group_(group),
      copies_(copies),
      pending_(static_cast<std::size_t>(parameters.num_segments())),
      announced_(pending_.size(), false) {
  const ZeroPlace zero = parameters.zero();
  LLMTRAIN_CHECK(zero.parts() == 1 || (zero.size == group.size() && zero.rank == group.rank()),
                 "gradients sharded for rank {} of {} in a group where it is rank {} of {}",
                 zero.rank,
                 zero.size,
                 group.rank(),
                 group.size());
}

void GradientReducer::prepare(SegmentIndex segment) {
  if (!reduces_every_pass()) return;
  const SegmentParameters& part = parameters_.segment(segment);
  if (part.borrows) prepare(*part.borrows);
  SegmentLanes& lanes = parameters_.gradient_lanes();
  const std::optional<SegmentIndex> occupant = lanes.occupant(segment);
  if (occupant == segment && pending_[static_cast<std::size_t>(segment)] == nullptr) return;
  if (occupant) settle(*occupant);
  lanes.enter(segment);
  at::Tensor whole = part.grads;  // [padded numel]
  whole.zero_();
}

void GradientReducer::on_gradient_ready(SegmentIndex segment) {
  const SegmentParameters& part = parameters_.segment(segment);
  const auto index = static_cast<std::size_t>(segment);
  LLMTRAIN_CHECK(pending_[index] == nullptr, "segment {} was announced twice", segment);
  announced_[index] = true;
  at::Tensor whole = reduces_every_pass() ? parameters_.gradient_lanes().memory(segment) : part.grads;  // [n]
  at::Tensor own = whole.narrow(0, part.own.begin, part.own.size());  // [own]
  pending_[index] = parameters_.zero().shards_optimizer()
                        ? group_.reduce_scatter_async(whole, own, ReduceOp::kSum)
                        : group_.all_reduce_async(whole, ReduceOp::kSum);
}

// A lane gives its part to the sum and is free.
void GradientReducer::settle(SegmentIndex segment) {
  std::unique_ptr<Pending>& pending = pending_[static_cast<std::size_t>(segment)];
  LLMTRAIN_CHECK(pending != nullptr, "segment {} holds gradients that were never announced", segment);
  pending->wait();
  pending.reset();
  if (!reduces_every_pass()) return;
  SegmentLanes& lanes = parameters_.gradient_lanes();
  const SegmentParameters& part = parameters_.segment(segment);
  at::Tensor sum = part.own_grads;  // [own]
  sum.add_(lanes.memory(segment).narrow(0, part.own.begin, part.own.size()));
  lanes.leave(segment);
}

void GradientReducer::finish() {
  for (SegmentIndex segment = 0; segment < parameters_.num_segments(); ++segment)
    LLMTRAIN_CHECK(announced_[static_cast<std::size_t>(segment)] || parameters_.segment(segment).empty(),
                   "the gradient of segment {} was never announced",
                   segment);
  // Backward goes from the last segment to the first, and so do the reductions.
  for (SegmentIndex segment = parameters_.num_segments() - 1; segment >= 0; --segment)
    if (pending_[static_cast<std::size_t>(segment)] != nullptr) settle(segment);
  announced_.assign(announced_.size(), false);
  sum_over_copies();
}

void GradientReducer::sum_over_copies() {
  if (copies_.size() == 1) return;
  std::vector<std::unique_ptr<Pending>> pending;
  for (SegmentIndex segment = 0; segment < parameters_.num_segments(); ++segment) {
    if (parameters_.segment(segment).empty()) continue;
    at::Tensor own = parameters_.segment(segment).own_grads;  // [own]
    pending.push_back(copies_.all_reduce_async(own, ReduceOp::kSum));
  }
  for (const std::unique_ptr<Pending>& sum : pending) sum->wait();
}

}  // namespace llmtrain
