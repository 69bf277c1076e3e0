#pragma once

#include <functional>
#include <vector>

#include "llmtrain/tensor/tensor.hpp"

// Hand-written gradients inside autograd: an operator computes its output as it likes and hangs its
// backward on it as a closure.
//
// This is the one place that touches libtorch's autograd classes (they are costly to compile). Inside
// a segment of the model the graph is made of such nodes; between segments there is no graph.
namespace llmtrain {

// Gradients for the inputs, in their order; an undefined tensor means zero.
using BackwardClosure = std::function<std::vector<at::Tensor>(const at::Tensor& grad_output)>;

// True when one of the inputs needs a gradient and grad mode is on: then a closure is worth building.
bool wants_gradient(const std::vector<at::Tensor>& inputs);

// Makes `output` depend on `inputs`; `name` shows in error messages and profiles. The closure must not
// hold `output` itself (that would be a cycle that is never freed): keep output.detach() instead.
// What it holds is released as soon as it has run. `output` is a fresh tensor, not a view.
void attach_backward(at::Tensor& output,
                     std::vector<at::Tensor> inputs,
                     const char* name,
                     BackwardClosure backward);

// A leaf that shares the values of `x` and collects a gradient: the input of a segment.
at::Tensor leaf_of(const at::Tensor& x);

// Runs the graph behind `output` with the given gradient and returns the gradient of `leaf`.
at::Tensor backward_through(const at::Tensor& output, const at::Tensor& grad_output, const at::Tensor& leaf);

}  // namespace llmtrain
