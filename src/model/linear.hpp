#pragma once

#include <string>
#include <vector>

#include "gradient_context.hpp"
#include "linear_input.hpp"

// Linear layers, alone or stacked: query, key and value (gate and up) read the same input, so they are
// one product when their weights are neighbours in the flat buffer.
//
// A column-parallel layer enters the tensor-parallel region: a rank holds some of its outputs. A
// row-parallel one leaves it: a rank holds some of its inputs, and the products of all ranks are added up.
// On one rank both are plain layers.
namespace llmtrain {

// Matrices whose outputs stand side by side; usually one fused matrix.
struct LinearWeights {
  std::vector<WeightView> weights;  // each [out_i, in]
  std::vector<WeightView> biases;   // each [out_i]; empty = no bias
  std::int64_t in = 0;
  std::int64_t out = 0;  // sum of out_i
};

// `names` without ".weight"; a bias is used where the table has one.
LinearWeights linear_weights(const FlatParameters& params, const std::vector<std::string>& names);

// y [t, out] = x [t, in] W^T + bias. Backward returns dx and adds to main gradients.
at::Tensor column_linear(const LinearInput& x, const LinearWeights& w, const GradientContext& context);

// y [t, out] = residual [t, out] + bias + the sum over ranks of x [t, in] W^T; the bias counts once. Without
// its values y is the end of a graph and nothing else.
at::Tensor row_linear(const LinearInput& x,
                      const LinearWeights& w,
                      const GradientContext& context,
                      const at::Tensor& residual,
                      bool wants_values = true);

// dx [t, in] of y = x W^T, and nothing else.
at::Tensor linear_input_gradient(const at::Tensor& dy, const LinearWeights& w);
// Adds dy^T x and the column sums of dy to the main gradients.
void add_linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const LinearWeights& w);

}  // namespace llmtrain
