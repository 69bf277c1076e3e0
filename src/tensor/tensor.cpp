#include "llmtrain/tensor/tensor.hpp"

#include <stdexcept>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return at::kBFloat16;
    case DType::kFp16: return at::kHalf;
    case DType::kFp32: return at::kFloat;
    case DType::kFp64: return at::kDouble;
  }
  throw std::invalid_argument("not an element type");
}

DType dtype_of(at::ScalarType type) {
  if (type == at::kBFloat16) return DType::kBf16;
  if (type == at::kHalf) return DType::kFp16;
  if (type == at::kFloat) return DType::kFp32;
  if (type == at::kDouble) return DType::kFp64;
  throw std::invalid_argument(
      fmt::format("tensor type {} is none of bf16, fp16, fp32, fp64", c10::toString(type)));
}

at::Tensor empty_host(at::IntArrayRef sizes, DType dtype) {
  return at::empty(sizes, at::TensorOptions().dtype(scalar_type(dtype)).device(at::kCPU));
}

at::Tensor zeros_host(at::IntArrayRef sizes, DType dtype) {
  return at::zeros(sizes, at::TensorOptions().dtype(scalar_type(dtype)).device(at::kCPU));
}

void expect_shape(const at::Tensor& tensor,
                  std::initializer_list<std::int64_t> shape,
                  std::string_view what) {
  LLMTRAIN_CHECK(tensor.defined(), "{} is not there", what);
  bool equal = tensor.dim() == static_cast<std::int64_t>(shape.size());
  std::int64_t dim = 0;
  for (const std::int64_t extent : shape) {
    equal = equal && (extent == kAnyExtent || tensor.size(dim) == extent);
    ++dim;
  }
  LLMTRAIN_CHECK(equal,
                 "{} has shape [{}], expected [{}] (-1 = any)",
                 what,
                 fmt::join(tensor.sizes(), ", "),
                 fmt::join(shape, ", "));
}

}  // namespace llmtrain
