#pragma once

#include "linear.hpp"
#include "norm.hpp"
#include "vocabulary_part.hpp"

// The last segment: final norm, head matrix and cross entropy.
//
// Logits exist only for a chunk of tokens at a time, in fp32 (fp64); their gradient goes straight into
// the gradients of the hidden state and of the head matrix. The result does not depend on the chunk. A
// rank has the logits of its part of the vocabulary only.
namespace llmtrain {

struct HeadWeights {
  NormWeights norm;
  WeightView matrix;  // [rows of this rank, h]
  VocabularyPart vocabulary;
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

// normed [t, h] comes from the final norm; labels [t]. Collective over the region.
HeadLoss head_loss(const at::Tensor& normed,
                   const at::Tensor& labels,
                   const HeadWeights& w,
                   const TensorRegion& region,
                   const LossOptions& options);

// hidden [t, h] -> logits [t, vocab] in the accumulation type; for a rank that holds the whole vocabulary.
at::Tensor head_logits(const at::Tensor& hidden, const HeadWeights& w);

}  // namespace llmtrain
