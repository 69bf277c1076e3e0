#pragma once

#include <string>

#include "gradient_context.hpp"

// RMS norm and layer norm over the last dimension, statistics in the accumulation type.
namespace llmtrain {

struct NormWeights {
  NormKind kind = NormKind::kRmsNorm;
  double eps = 1e-5;
  WeightView weight;  // [h]
  WeightView bias;    // [h]; layer norm only
};

NormWeights norm_weights(const FlatParameters& params, const ModelSpec& model, const std::string& name);

// x [t, h] -> [t, h]
at::Tensor norm(const at::Tensor& x, const NormWeights& w, const GradientContext& context);

}  // namespace llmtrain
