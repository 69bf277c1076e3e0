#include "llmtrain/parallel/parameter_gather.hpp"

#include "llmtrain/core/check.hpp"

namespace llmtrain {

ParameterGather::ParameterGather(FlatParameters& parameters, Communicator& group, Plant plant)
    : parameters_(parameters),
      group_(group),
      plant_(plant),
      pending_(static_cast<std::size_t>(parameters.num_segments())) {
  const ZeroPlace zero = parameters.zero();
  LLMTRAIN_CHECK(zero.parts() == 1 || (zero.size == group.size() && zero.rank == group.rank()),
                 "parameters sharded for rank {} of {} in a group where it is rank {} of {}",
                 zero.rank,
                 zero.size,
                 group.rank(),
                 group.size());
}

void ParameterGather::on_update() {
  // After initialisation and one update.
  if (plant_ == Plant::kStaleGather && changes_++ == 2) return;
  const ZeroPlace zero = parameters_.zero();
  const int segments = parameters_.num_segments();
  for (SegmentIndex s = 0; s < segments; ++s) {
    if (parameters_.segment(s).empty()) continue;
    if (zero.shards_weights()) {
      if (parameters_.weight_lanes().holds(s)) drop(s);
    } else if (zero.shards_optimizer()) {
      at::Tensor whole = parameters_.segment(s).weights;  // [padded numel]
      pending_[static_cast<std::size_t>(s)] =
          group_.all_gather_async(parameters_.segment(s).own_weights, whole);
    }
  }
  for (std::unique_ptr<Pending>& gather : pending_) {
    if (gather != nullptr) gather->wait();
    gather.reset();
  }
}

void ParameterGather::acquire(SegmentIndex segment, PassDirection direction) {
  if (!parameters_.zero().shards_weights()) return;
  if (const auto lender = parameters_.segment(segment).borrows) make_whole(*lender);
  make_whole(segment);
  const bool forward = direction == PassDirection::kForward;
  const SegmentIndex next = forward ? segment + 1 : segment - 1;
  // The first segment's backward reads no weights; behind the last one here comes another stage.
  if (next > 0 && next < parameters_.num_segments() && !parameters_.segment(next).empty()) start(next);
}

void ParameterGather::start(SegmentIndex segment) {
  SegmentLanes& lanes = parameters_.weight_lanes();
  if (lanes.holds(segment)) return;
  if (const auto occupant = lanes.occupant(segment)) drop(*occupant);
  lanes.enter(segment);
  at::Tensor whole = lanes.memory(segment);  // [padded numel]
  pending_[static_cast<std::size_t>(segment)] =
      group_.all_gather_async(parameters_.segment(segment).own_weights, whole);
}

void ParameterGather::make_whole(SegmentIndex segment) {
  start(segment);
  std::unique_ptr<Pending>& gather = pending_[static_cast<std::size_t>(segment)];
  if (gather != nullptr) gather->wait();
  gather.reset();
}

void ParameterGather::drop(SegmentIndex segment) {
  make_whole(segment);  // a transfer that nobody waited for must not write into the next one's memory
  parameters_.weight_lanes().leave(segment);
}

}  // namespace llmtrain
