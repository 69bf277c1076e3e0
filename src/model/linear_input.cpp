#include "linear_input.hpp"

#include <ATen/core/grad_mode.h>

#include "llmtrain/tensor/gradient_node.hpp"

namespace llmtrain {

RestoredInput::RestoredInput(at::Tensor leaf, at::Tensor output)
    : values_(output.detach()), leaf_(std::move(leaf)), output_(std::move(output)) {}

at::Tensor RestoredInput::source_gradient(const at::Tensor& d_values) && {
  if (!leaf_.defined()) return d_values;
  const at::Tensor output = std::move(output_);
  return backward_through(output, d_values, leaf_);
}

LinearInput LinearInput::detached() const {
  LinearInput result = *this;
  result.source_ = source_.detach();
  return result;
}

at::Tensor LinearInput::values() const {
  if (!function_) return source_.detach();
  const at::AutoGradMode no_graph(false);
  return function_(source_.detach());
}

RestoredInput LinearInput::restored() const {
  if (!function_) return RestoredInput(source_);
  const at::AutoGradMode graph(true);
  at::Tensor leaf = leaf_of(source_);
  at::Tensor output = function_(leaf);
  return {std::move(leaf), std::move(output)};
}

LinearInput linear_input(const at::Tensor& x, LinearInput::Function function, bool keeps_result) {
  if (keeps_result) return function(x);
  return {x, std::move(function)};
}

}  // namespace llmtrain
