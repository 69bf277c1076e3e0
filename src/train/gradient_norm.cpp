#include "llmtrain/train/gradient_norm.hpp"

#include <algorithm>

#include <ATen/ops/full.h>

#include "llmtrain/optim/grad_norm.hpp"

namespace llmtrain {

GradientNorm::GradientNorm(const FlatParameters& parameters, Communicator& tensor) : tensor_(tensor) {
  const auto is_counted = [](const ParamSlice& slice) { return slice.shard.is_counted(); };
  for (SegmentIndex s = 0; s < parameters.num_segments(); ++s) {
    const SegmentParameters& segment = parameters.segment(s);
    if (std::all_of(segment.slices.begin(), segment.slices.end(), is_counted)) {
      counted_.push_back(segment.grads);
      continue;
    }
    for (const ParamSlice& slice : segment.slices)
      if (is_counted(slice)) counted_.push_back(slice.grad);
  }
}

double GradientNorm::sum_of_squares() const {
  const double own = llmtrain::sum_of_squares(counted_);
  if (tensor_.size() == 1) return own;
  at::Tensor sum = at::full({1}, own, at::kDouble);  // [1]
  tensor_.all_reduce(sum, ReduceOp::kSum);
  return *sum.const_data_ptr<double>();
}

}  // namespace llmtrain
