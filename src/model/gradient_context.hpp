#pragma once

#include "llmtrain/model/model_chunk.hpp"
#include "llmtrain/model/sequence_attention.hpp"

#include "tensor_region.hpp"

// What the operators of one chunk share: the ranks they compute with, and how weight gradients are run.
namespace llmtrain {

// Runs, or keeps for later, the computation of one weight gradient.
using WeightGradientRunner = std::function<void(std::function<void()>)>;

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
