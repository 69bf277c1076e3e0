#include "llmtrain/tensor/gemm.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/tensor/native_types.hpp"

namespace llmtrain {
namespace {

void product(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, GemmScale scale) {
  if (scale.alpha == 1.0 && scale.beta == 0.0)
    at::mm_out(out, a, b);
  else
    at::addmm_out(out, out, a, b, scale.beta, scale.alpha);
}

}  // namespace

void gemm(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, GemmScale scale) {
  LLMTRAIN_CHECK(a.dim() == 2 && b.dim() == 2 && out.dim() == 2 && a.size(1) == b.size(0) &&
                     out.size(0) == a.size(0) && out.size(1) == b.size(1) &&
                     a.scalar_type() == b.scalar_type(),
                 "gemm of {} x {} into {} dimensions",
                 a.dim(),
                 b.dim(),
                 out.dim());
  const at::ScalarType type = a.scalar_type();
  const bool narrow = type == at::kBFloat16 || type == at::kHalf;
  const bool native = out.scalar_type() == type && multiplies_natively(type);
  if (!narrow || native) return product(a, b, out, scale);

  const at::Tensor wide_a = a.to(at::kFloat);  // [m, k] fp32
  const at::Tensor wide_b = b.to(at::kFloat);  // [k, n] fp32
  if (out.scalar_type() == at::kFloat) return product(wide_a, wide_b, out, scale);
  at::Tensor wide_out =
      scale.beta == 0.0 ? empty_host(out.sizes(), DType::kFp32) : out.to(at::kFloat);  // [m, n] fp32
  product(wide_a, wide_b, wide_out, scale);
  out.copy_(wide_out);
}

}  // namespace llmtrain
