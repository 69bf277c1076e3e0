#include "llmtrain/tensor/gemm.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

void gemm(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, GemmScale scale) {
  LLMTRAIN_CHECK(a.dim() == 2 && b.dim() == 2 && out.dim() == 2 && a.size(1) == b.size(0) &&
                     out.size(0) == a.size(0) && out.size(1) == b.size(1) && a.scalar_type() == b.scalar_type(),
                 "gemm of [{}, {}] x [{}, {}] into [{}, {}]", a.size(0), a.size(1), b.size(0), b.size(1),
                 out.size(0), out.size(1));
  const at::Tensor wide_a = a.scalar_type() == out.scalar_type() ? a : a.to(out.scalar_type());  // [m, k]
  const at::Tensor wide_b = b.scalar_type() == out.scalar_type() ? b : b.to(out.scalar_type());  // [k, n]
  if (scale.alpha == 1.0 && scale.beta == 0.0)
    at::mm_out(out, wide_a, wide_b);
  else
    at::addmm_out(out, out, wide_a, wide_b, scale.beta, scale.alpha);
}

}  // namespace llmtrain
