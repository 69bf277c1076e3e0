#include "llmtrain/parallel/gradient_reducer.hpp"

#include <algorithm>

#include "llmtrain/core/check.hpp"
#include "llmtrain/tensor/memory_pool.hpp"

namespace llmtrain {

GradientReducer::GradientReducer(FlatParameters& parameters,
                                 Communicator& group,
                                 Communicator& copies,
                                 const ReducerOptions& options)
    : parameters_(parameters),
      group_(group),
      copies_(copies),
      options_(options),
      wire_(options.wire.value_or(parameters.main_type())),
      under_way_(static_cast<std::size_t>(parameters.num_segments())),
      announced_(under_way_.size(), false) {
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
  if (occupant == segment && !under_way_[static_cast<std::size_t>(segment)]) return;
  if (occupant) settle(*occupant);
  lanes.enter(segment);
  at::Tensor whole = part.grads;  // [padded numel]
  whole.zero_();
}

void GradientReducer::on_gradient_ready(SegmentIndex segment) {
  const auto index = static_cast<std::size_t>(segment);
  const at::Tensor kept = parameters_.segment(segment).grads;  // [n]
  LLMTRAIN_CHECK(!under_way_[index], "segment {} was announced twice", segment);
  announced_[index] = true;
  under_way_[index] =
      start(segment, reduces_every_pass() ? parameters_.gradient_lanes().memory(segment) : kept);
  if (!options_.overlap) settle(segment);
}

// Nothing is rounded that goes nowhere.
at::Tensor GradientReducer::as_sent(const at::Tensor& kept) const {
  if (group_.size() * copies_.size() == 1) return kept;
  const PoolScope scope(MemoryPool::kGradients);
  return kept.to(scalar_type(wire_));
}

// Where a rank gets a part of the sum, the parts lie all over the buffer, which is reduced as one.
GradientReducer::UnderWay GradientReducer::start(SegmentIndex segment, const at::Tensor& whole) {
  if (!parameters_.zero().shards_optimizer()) return sum_in_place(group_, whole);
  const FlatRange own = parameters_.segment(segment).own;
  const at::Tensor sent = as_sent(whole);                   // [n]
  at::Tensor part = sent.narrow(0, own.begin, own.size());  // [own]
  UnderWay reduction{.kept = whole.narrow(0, own.begin, own.size()), .sent = part};
  reduction.buckets.push_back(group_.reduce_scatter_async(sent, part, ReduceOp::kSum));
  return reduction;
}

GradientReducer::UnderWay GradientReducer::sum_in_place(Communicator& group, const at::Tensor& kept) {
  UnderWay reduction{.kept = kept, .sent = as_sent(kept)};
  const std::int64_t elements = kept.numel();
  const std::int64_t size = options_.bucket_size.value_or(elements);
  for (std::int64_t begin = 0; begin < elements; begin += size) {
    at::Tensor bucket = reduction.sent.narrow(0, begin, std::min(size, elements - begin));  // [bucket]
    reduction.buckets.push_back(group.all_reduce_async(bucket, ReduceOp::kSum));
  }
  return reduction;
}

void GradientReducer::finish(UnderWay& reduction) {
  for (const std::unique_ptr<Pending>& bucket : reduction.buckets) bucket->wait();
  if (reduction.kept.scalar_type() != reduction.sent.scalar_type()) reduction.kept.copy_(reduction.sent);
}

// A lane gives its part to the sum and is free.
void GradientReducer::settle(SegmentIndex segment) {
  std::optional<UnderWay>& reduction = under_way_[static_cast<std::size_t>(segment)];
  LLMTRAIN_CHECK(reduction, "segment {} holds gradients that were never announced", segment);
  finish(*reduction);
  reduction.reset();
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
    if (under_way_[static_cast<std::size_t>(segment)]) settle(segment);
  announced_.assign(announced_.size(), false);
  sum_over_copies();
}

void GradientReducer::sum_over_copies() {
  if (copies_.size() == 1) return;
  std::vector<UnderWay> sums;
  for (SegmentIndex segment = 0; segment < parameters_.num_segments(); ++segment) {
    if (parameters_.segment(segment).empty()) continue;
    sums.push_back(sum_in_place(copies_, parameters_.segment(segment).own_grads));
  }
  for (UnderWay& sum : sums) finish(sum);
}

}  // namespace llmtrain
