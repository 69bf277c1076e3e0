#pragma once

#include "block.hpp"

// The first segment: token rows, plus position rows when positions are learned.
namespace llmtrain {

struct EmbeddingWeights {
  WeightView tokens;     // [vocab, h]
  WeightView positions;  // [max positions, h], when learned
};

EmbeddingWeights embedding_weights(const FlatParameters& params);

// tokens [b, s] -> [b s, h]
at::Tensor embed(const at::Tensor& tokens, const EmbeddingWeights& w, const SequenceLayout& layout);

// Adds dx [b s, h] to the main gradients of the rows that were read.
void embed_backward(const at::Tensor& tokens,
                    const at::Tensor& dx,
                    const EmbeddingWeights& w,
                    const SequenceLayout& layout);

}  // namespace llmtrain
