#pragma once

#include <cstdint>

#include "llmtrain/optim/optimizer.hpp"

#include "kernels.hpp"

// Raw pointers into a slice, from one element on.
namespace llmtrain {

template <class T>
T* data_from(const at::Tensor& tensor, std::int64_t begin) {
  return static_cast<T*>(tensor.mutable_data_ptr()) + begin;
}

inline bool has_narrow_weight(const OptimizerSlice& slice) {
  return slice.weight.scalar_type() != slice.master.scalar_type();
}

inline kernels::NarrowWeights narrow_weights_from(const OptimizerSlice& slice, std::int64_t begin) {
  const bool half = slice.weight.scalar_type() == at::kHalf;
  return {.bits = data_from<std::uint16_t>(slice.weight, begin),
          .type = half ? kernels::Narrow::kFp16 : kernels::Narrow::kBf16};
}

}  // namespace llmtrain
