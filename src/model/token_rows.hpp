#pragma once

#include "llmtrain/tensor/tensor.hpp"

// Heads as rows of tokens, the order in which ranks exchange them: a part of the sequence is contiguous then,
// and parts of several ranks, one after the other, are a longer sequence. Both are views.
namespace llmtrain {

// [b, m, s, d] -> [s, b, m, d]
inline at::Tensor token_rows(const at::Tensor& heads) {
  return heads.permute({2, 0, 1, 3});
}

// [s, b, m, d] -> [b, m, s, d]
inline at::Tensor heads_of(const at::Tensor& rows) {
  return rows.permute({1, 2, 0, 3});
}

}  // namespace llmtrain
