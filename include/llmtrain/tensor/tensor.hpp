#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "llmtrain/core/dtype.hpp"

// What we use of libtorch: its tensor, our element types, and shape checks that name the culprit.
//
// Beside comm's interface this is the only public header that names libtorch; operators are included
// one by one in the sources that use them. It holds no state and chooses no device.
namespace llmtrain {

at::ScalarType scalar_type(DType dtype);

// Throws std::invalid_argument for a type that no spec can name.
DType dtype_of(at::ScalarType type);

// Sums, norms, softmax and main gradients are kept in this type: fp64 under fp64, else fp32.
constexpr DType accumulation_type(DType compute) {
  return compute == DType::kFp64 ? DType::kFp64 : DType::kFp32;
}

// Uninitialised, contiguous, 64-byte aligned host tensor without gradient.
at::Tensor empty_host(at::IntArrayRef sizes, DType dtype);
at::Tensor zeros_host(at::IntArrayRef sizes, DType dtype);

// Any extent, in expect_shape.
inline constexpr std::int64_t kAnyExtent = -1;

// Throws CheckFailure naming `what` unless the tensor has exactly this shape.
void expect_shape(const at::Tensor& tensor, std::initializer_list<std::int64_t> shape, std::string_view what);

}  // namespace llmtrain
