#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

// The local part of the global gradient norm.
namespace llmtrain {

// Sum of squares in fp64, in an order that depends on the number of elements only: bit-equal for any number
// of threads and on any CPU. Not finite exactly when an element is not (or, in fp64, when a square
// overflows: beyond 1e154). Tensors are contiguous fp32 or fp64.
double sum_of_squares(const at::Tensor& tensor);
double sum_of_squares(const std::vector<at::Tensor>& tensors);  // added up in list order

}  // namespace llmtrain
