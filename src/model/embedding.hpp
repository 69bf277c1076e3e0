#pragma once

#include "block.hpp"
#include "vocabulary_part.hpp"

// The first segment: token rows, plus position rows when positions are learned.
//
// A rank holds the rows of some tokens; what it looks up is a part of a sum over the tensor-parallel ranks.
namespace llmtrain {

struct EmbeddingWeights {
  WeightView tokens;  // [rows of this rank, h]
  VocabularyPart vocabulary;
  WeightView positions;  // [max positions, h], when learned
};

EmbeddingWeights embedding_weights(const FlatParameters& params);

// tokens [b, s] -> [b s, h]
at::Tensor embed(const at::Tensor& tokens,
                 const EmbeddingWeights& w,
                 const SequenceLayout& layout,
                 const TensorRegion& region);

// Adds dx [b s, h] to the main gradients of the rows that were read.
void embed_backward(const at::Tensor& tokens,
                    const at::Tensor& dx,
                    const EmbeddingWeights& w,
                    const SequenceLayout& layout,
                    const TensorRegion& region);

}  // namespace llmtrain
