#pragma once

#include "tensor_region.hpp"
#include "vocabulary_part.hpp"

// Cross entropy of a chunk of tokens over the whole vocabulary, of which each tensor-parallel rank has the
// logits of its own rows.
//
// Logits are never gathered: three numbers per token and rank are (largest logit, sum of exponentials above
// it, the label's logit), and every rank puts them together alike. One rank does all in one pass.
namespace llmtrain {

// logits [c, own rows] in the accumulation type, labels [c] of the whole vocabulary or kIgnoredLabel. Returns
// the sum of -log softmax(label). A defined `grad` [c, own rows] gets seed x (softmax - onehot); it may be
// the memory of logits. Collective over the region.
double cross_entropy(const at::Tensor& logits,
                     const std::int64_t* labels,
                     const VocabularyPart& vocabulary,
                     const TensorRegion& region,
                     const at::Tensor& grad,
                     double seed);

}  // namespace llmtrain
