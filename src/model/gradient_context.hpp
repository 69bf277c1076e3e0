#pragma once

#include "llmtrain/model/transformer.hpp"

// What the operators of one Transformer share: how weight gradients are run.
namespace llmtrain {

struct GradientContext {
  WeightGradientRunner runner;  // empty: at once

  void run(std::function<void()> weight_gradient) const {
    if (runner)
      runner(std::move(weight_gradient));
    else
      weight_gradient();
  }
};

}  // namespace llmtrain
