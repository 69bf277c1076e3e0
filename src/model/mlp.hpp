#pragma once

#include <string>

#include "linear.hpp"

// The feed-forward half of a block: gated (SwiGLU, GeGLU) or plain (GELU).
namespace llmtrain {

struct MlpWeights {
  MlpKind kind = MlpKind::kSwiglu;
  LinearWeights up;    // [2f, h] = gate over up when gated, else [f, h]
  LinearWeights down;  // [h, f]
};

MlpWeights mlp_weights(const FlatParameters& params, const ModelSpec& model, const std::string& prefix);

struct MlpPass {
  bool keeps_activation = true;  // for backward; else it is made again
  bool wants_values = true;      // of the output; else only the graph behind it
};

// residual [t, h] + down(act(up(x [t, h])))
at::Tensor mlp(const LinearInput& x,
               const MlpWeights& w,
               const GradientContext& context,
               const at::Tensor& residual,
               const MlpPass& pass);

}  // namespace llmtrain
