#pragma once

#include <cstdint>

#include "llmtrain/optim/optimizer.hpp"

// Raw pointers into a slice, from one element on.
namespace llmtrain {

template <class T>
T* data_from(const at::Tensor& tensor, std::int64_t begin) {
  return static_cast<T*>(tensor.mutable_data_ptr()) + begin;
}

inline bool has_bf16_weight(const OptimizerSlice& slice) {
  return slice.weight.scalar_type() == at::kBFloat16;
}

}  // namespace llmtrain
