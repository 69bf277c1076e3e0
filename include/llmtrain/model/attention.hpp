#pragma once

#include "llmtrain/tensor/tensor.hpp"

// Softmax attention: the one function that every model path goes through.
//
// It also returns the log-sum-exp of the scaled scores, which merges partial results over key blocks
// (ring attention) and makes the backward need no second softmax. No projections, positions or caches.
// Gradients come in q's type, or in fp32 where narrow inputs had to be widened for this CPU.
// Shapes: b sequences, n query heads, k key/value heads (k divides n; query heads j g .. j g + g - 1 use
// key head j), s queries, u keys, d head width.
namespace llmtrain {

struct AttentionResult {
  at::Tensor out;  // [b, n, s, d], lying in memory as [b, s, n, d]
  at::Tensor lse;  // [b, n, s] natural log, accumulation type
};

struct AttentionGradients {
  at::Tensor dq;  // [b, n, s, d], lying in memory as [b, s, n, d]
  at::Tensor dk;  // [b, k, u, d], lying in memory as [b, u, k, d]
  at::Tensor dv;  // [b, k, u, d], lying in memory as [b, u, k, d]
};

// q [b, n, s, d], k and v [b, k, u, d], any strides with a contiguous last dimension. Causal: query i sees
// keys 0 .. u - s + i, so that the last query sees every key.
AttentionResult attention(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale);

// `whole` becomes attention over the keys of both, which must be different ones. It is written in place (its
// tensors may be views); out is of the accumulation type.
void merge_attention(const AttentionResult& whole, const AttentionResult& part);

// With the whole (merged) out and lse, the gradients of one block of keys are its share of the sum.
AttentionGradients attention_backward(const at::Tensor& d_out,
                                      const at::Tensor& q,
                                      const at::Tensor& k,
                                      const at::Tensor& v,
                                      const AttentionResult& forward,
                                      bool causal,
                                      double scale);

}  // namespace llmtrain
