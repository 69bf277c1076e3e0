#pragma once

#include "llmtrain/tensor/tensor.hpp"

// A flat tensor whose memory comes and goes while the views of it stay: values that are whole for a while
// only.
//
// All views share one storage; to lend memory is to point that storage at another tensor's. Between two stays
// there is nothing to read: touching a view then faults at once, and never finds old values.
namespace llmtrain {

// [numel], without memory.
at::Tensor hollow_host(std::int64_t numel, DType dtype);

// `memory` has the type and at least the elements of `hollow`, and must outlive the stay.
void lend_memory(const at::Tensor& hollow, const at::Tensor& memory);
void withdraw_memory(const at::Tensor& hollow);

}  // namespace llmtrain
