#pragma once

#include "llmtrain/tensor/tensor.hpp"

// Matrix products of the training step, with the accumulation type under our control.
//
// The only door to BLAS of our own code. Low-precision operands are multiplied and added in fp32; what
// is rounded is only the result, and not even that when `out` is fp32: this is how weight gradients are
// added to main gradients without ever being bf16.
namespace llmtrain {

struct GemmScale {
  double alpha = 1.0;
  double beta = 0.0;  // 0: what was in `out` is not read
};

// out = beta out + alpha a b with a [m, k], b [k, n] (each may be a transposed view) and out [m, n] with
// contiguous rows. Types: a and b alike; out the same type, or fp32 for bf16 and
// fp16 operands.
void gemm(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, GemmScale scale = {});

}  // namespace llmtrain
