#include "llmtrain/tensor/gradient_node.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

using torch::autograd::variable_list;

class ClosureNode final : public torch::autograd::Node {
 public:
  ClosureNode(const char* name, std::size_t num_inputs, BackwardClosure backward)
      : name_(name), num_inputs_(num_inputs), backward_(std::move(backward)) {}

  std::string name() const override { return name_; }
  void release_variables() override { backward_ = nullptr; }

 private:
  variable_list apply(variable_list&& grads) override {
    LLMTRAIN_CHECK(backward_, "the gradient of {} was already computed", name_);
    LLMTRAIN_CHECK(grads.size() == 1 && grads[0].defined(), "{} got no gradient", name_);
    // Gradients of gradients are not offered, so no graph is built here.
    const at::AutoGradMode no_graph(false);
    const at::Tensor grad = std::move(grads[0]);
    grads.clear();
    variable_list result = backward_(grad);
    LLMTRAIN_CHECK(result.size() == num_inputs_,
                   "{} made {} gradients for {} inputs",
                   name_,
                   result.size(),
                   num_inputs_);
    return result;
  }

  const char* name_;
  std::size_t num_inputs_;
  BackwardClosure backward_;
};

}  // namespace

bool wants_gradient(const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return false;
  for (const at::Tensor& input : inputs)
    if (input.defined() && input.requires_grad()) return true;
  return false;
}

void attach_backward(at::Tensor& output,
                     std::vector<at::Tensor> inputs,
                     const char* name,
                     BackwardClosure backward) {
  if (!wants_gradient(inputs)) return;
  auto node = c10::make_intrusive<ClosureNode>(name, inputs.size(), std::move(backward));
  torch::autograd::edge_list edges;
  edges.reserve(inputs.size());
  for (const at::Tensor& input : inputs)
    edges.push_back(input.defined() ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
  node->set_next_edges(std::move(edges));
  torch::autograd::set_history(output, node);
}

at::Tensor leaf_of(const at::Tensor& x) {
  return x.detach().requires_grad_(true);
}

at::Tensor backward_through(const at::Tensor& output, const at::Tensor& grad_output, const at::Tensor& leaf) {
  return torch::autograd::grad({output}, {leaf}, {grad_output})[0];
}

}  // namespace llmtrain
