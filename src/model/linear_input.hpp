#pragma once

#include <functional>
#include <utility>

#include "llmtrain/tensor/tensor.hpp"

// What a linear layer reads: a tensor, or what a cheap function makes of one and makes again in backward, so
// that the layer keeps the function's argument instead of its result.
namespace llmtrain {

// The values in backward, and the way from their gradient to that of what was kept.
class RestoredInput {
 public:
  explicit RestoredInput(at::Tensor values) : values_(std::move(values)) {}
  RestoredInput(at::Tensor leaf, at::Tensor output);

  const at::Tensor& values() const { return values_; }
  // Once; lets go of the function's graph.
  at::Tensor source_gradient(const at::Tensor& d_values) &&;

 private:
  at::Tensor values_;  // without a graph
  at::Tensor leaf_;    // undefined when the values themselves were kept
  at::Tensor output_;
};

class LinearInput {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  LinearInput(at::Tensor values) : source_(std::move(values)) {}  // NOLINT: a tensor is one
  // The function must leave its argument as it is, and outlive this with what it refers to.
  LinearInput(at::Tensor argument, Function function)
      : source_(std::move(argument)), function_(std::move(function)) {}

  // What gradients are for.
  const at::Tensor& source() const { return source_; }
  // The same without a graph behind it, to be kept.
  LinearInput detached() const;
  at::Tensor values() const;
  RestoredInput restored() const;

 private:
  at::Tensor source_;
  Function function_;  // empty: the source is the values
};

// function(x), kept as its result or as x.
LinearInput linear_input(const at::Tensor& x, LinearInput::Function function, bool keeps_result);

}  // namespace llmtrain
