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

// residual [t, h] + down(act(up(x [t, h]))). What act makes is kept for backward, or made again.
at::Tensor mlp(const LinearInput& x,
               const MlpWeights& w,
               const GradientContext& context,
               const at::Tensor& residual,
               bool keeps_activation);

}  // namespace llmtrain
