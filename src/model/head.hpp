#pragma once

#include "linear.hpp"
#include "norm.hpp"

// The last segment: final norm, head matrix and cross entropy.
//
// Logits exist only for a chunk of tokens at a time, in fp32 (fp64); their gradient goes straight into
// the gradients of the hidden state and of the head matrix. The result does not depend on the chunk.
namespace llmtrain {

struct HeadWeights {
  NormWeights norm;
  WeightView matrix;  // [vocab, h]
};

HeadWeights head_weights(const FlatParameters& params, const ModelSpec& model);

struct HeadLoss {
  LossSums sums;
  at::Tensor d_hidden{};  // [t, h] gradient of seed x loss, when asked for
};

struct LossOptions {
  std::int64_t chunk_tokens = 0;
  bool with_gradient = false;  // then the head matrix's main gradient is added to as well
  double seed = 1.0;
};

// hidden [t, h] after the final norm, labels [t].
HeadLoss head_loss(const at::Tensor& hidden,
                   const at::Tensor& labels,
                   const HeadWeights& w,
                   const LossOptions& options);

// hidden [t, h] -> logits [t, vocab] in the accumulation type.
at::Tensor head_logits(const at::Tensor& hidden, const HeadWeights& w);

}  // namespace llmtrain
