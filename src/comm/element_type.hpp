#pragma once

#include <ATen/core/Tensor.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/shm/reduce.hpp"

// The types that a reduction takes.
namespace llmtrain {

inline ElementType element_type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16: return ElementType::kBf16;
    case at::kHalf: return ElementType::kFp16;
    case at::kFloat: return ElementType::kFp32;
    case at::kDouble: return ElementType::kFp64;
    case at::kLong: return ElementType::kInt64;
    default: break;
  }
  LLMTRAIN_CHECK(false,
                 "a reduction of {}; it takes bf16, fp16, fp32, fp64 and int64",
                 c10::toString(tensor.scalar_type()));
  return ElementType::kFp32;
}

}  // namespace llmtrain
