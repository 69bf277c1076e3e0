#pragma once

#include "llmtrain/model/sequence_attention.hpp"
#include "llmtrain/model/transformer.hpp"

#include "tensor_region.hpp"

// What the operators of one Transformer share: the ranks they compute with, and how weight gradients are run.
namespace llmtrain {

struct GradientContext {
  TensorRegion region;
  SequenceGroup sequence;
  WeightGradientRunner runner;  // empty: at once

  void run(std::function<void()> weight_gradient) const {
    if (runner)
      runner(std::move(weight_gradient));
    else
      weight_gradient();
  }
};

}  // namespace llmtrain
