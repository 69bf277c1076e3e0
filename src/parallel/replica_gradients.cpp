#include "llmtrain/parallel/replica_gradients.hpp"

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

bool is_forgotten(const ParamSpec& param, Plant plant) {
  return plant == (param.cut_dim ? Plant::kKvGradients : Plant::kNormGradients);
}

}  // namespace

ReplicaGradients::ReplicaGradients(const FlatParameters& parameters,
                                   Communicator& tensor,
                                   Communicator& replicas,
                                   Plant plant)
    : parts_(static_cast<std::size_t>(parameters.num_segments())) {
  for (SegmentIndex s = 0; s < parameters.num_segments(); ++s)
    for (const ParamSlice& slice : parameters.segment(s).slices) {
      if (!slice.spec->partial_grad || slice.shard.replicas == 1 || is_forgotten(*slice.spec, plant))
        continue;
      Communicator& group = slice.shard.replicas == tensor.size() ? tensor : replicas;
      LLMTRAIN_CHECK(group.size() == slice.shard.replicas,
                     "{} is held by {} ranks and would be summed over {}",
                     slice.spec->name,
                     slice.shard.replicas,
                     group.size());
      parts_[static_cast<std::size_t>(s)].push_back({&group, slice.grad});
    }
}

void ReplicaGradients::sum(SegmentIndex segment) {
  for (Part& part : parts_[static_cast<std::size_t>(segment)])
    part.group->all_reduce(part.grads, ReduceOp::kSum);
}

}  // namespace llmtrain
