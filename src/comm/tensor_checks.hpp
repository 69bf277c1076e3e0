#pragma once

#include <ATen/core/Tensor.h>

#include "llmtrain/core/check.hpp"

// What every backend demands of the tensors and ranks it is given.
namespace llmtrain {

inline void check_tensor(const at::Tensor& tensor) {
  LLMTRAIN_CHECK(tensor.defined() && tensor.is_contiguous(), "a collective takes contiguous tensors");
}

// Both ends of a message are ranks of the group, and not the same.
inline void check_peer(const char* verb, int rank, int peer, int size) {
  LLMTRAIN_CHECK(
      peer >= 0 && peer < size && peer != rank, "{} of rank {} with rank {} of {}", verb, rank, peer, size);
}

// `out` holds `parts` times what `in` holds.
inline void check_parts(const at::Tensor& in, const at::Tensor& out, std::int64_t parts) {
  check_tensor(in);
  check_tensor(out);
  LLMTRAIN_CHECK(in.scalar_type() == out.scalar_type(),
                 "{} into {}",
                 c10::toString(in.scalar_type()),
                 c10::toString(out.scalar_type()));
  LLMTRAIN_CHECK(
      out.numel() == in.numel() * parts, "{} elements x {} into {}", in.numel(), parts, out.numel());
}

}  // namespace llmtrain
