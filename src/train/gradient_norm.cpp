#include "llmtrain/train/gradient_norm.hpp"

#include <algorithm>

#include <ATen/ops/full.h>

#include "llmtrain/optim/grad_norm.hpp"

namespace llmtrain {

GradientNorm::GradientNorm(const FlatParameters& parameters,
                           Communicator& tensor,
                           Communicator& shards,
                           Communicator& pipeline,
                           Plant plant) {
  const auto is_counted = [plant](const ParamSlice& slice) {
    return slice.is_counted() || plant == Plant::kNormReplicas;
  };
  for (SegmentIndex s = 0; s < parameters.num_segments(); ++s) {
    const SegmentParameters& segment = parameters.segment(s);
    if (std::all_of(segment.slices.begin(), segment.slices.end(), is_counted)) {
      counted_.push_back(segment.own_grads);
      continue;
    }
    for (const ParamSlice& slice : segment.slices)
      if (is_counted(slice)) counted_.push_back(slice.own_grad);
  }
  if (plant == Plant::kTiedTwice)
    for (const ParamSpec& param : parameters.table())
      if (!param.tied_with.empty()) counted_.push_back(parameters.slice(param.name).own_grad);
  if (plant == Plant::kNormLocal) return;
  if (parameters.zero().parts() > 1) groups_.push_back(&shards);
  if (tensor.size() > 1) groups_.push_back(&tensor);
  if (pipeline.size() > 1 && plant != Plant::kNormStages) groups_.push_back(&pipeline);
}

double GradientNorm::sum_of_squares() const {
  at::Tensor sum = at::full({1}, llmtrain::sum_of_squares(counted_), at::kDouble);  // [1]
  for (Communicator* group : groups_) group->all_reduce(sum, ReduceOp::kSum);
  return *sum.const_data_ptr<double>();
}

}  // namespace llmtrain
