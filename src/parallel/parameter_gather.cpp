#include "llmtrain/parallel/parameter_gather.hpp"

#include <memory>
#include <vector>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

ParameterGather::ParameterGather(FlatParameters& parameters, Communicator& group)
    : parameters_(parameters), group_(group) {
  const ZeroPlace zero = parameters.zero();
  LLMTRAIN_CHECK(zero.parts() == 1 || (zero.size == group.size() && zero.rank == group.rank()),
                 "parameters sharded for rank {} of {} in a group where it is rank {} of {}",
                 zero.rank,
                 zero.size,
                 group.rank(),
                 group.size());
}

void ParameterGather::on_update() {
  if (!parameters_.zero().shards_optimizer()) return;
  std::vector<std::unique_ptr<Pending>> pending;
  for (SegmentIndex s = 0; s < parameters_.num_segments(); ++s) {
    at::Tensor whole = parameters_.segment(s).weights;  // [padded numel]
    pending.push_back(group_.all_gather_async(parameters_.segment(s).own_weights, whole));
  }
  for (const std::unique_ptr<Pending>& gather : pending) gather->wait();
}

}  // namespace llmtrain
