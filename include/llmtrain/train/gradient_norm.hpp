#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

namespace llmtrain {

// The squared norm of the gradient of the whole model, each parameter counted once on every layout: of the
// tensor-parallel ranks that hold the same values, one counts them.
class GradientNorm {
 public:
  // Both outlive this.
  GradientNorm(const FlatParameters& parameters, Communicator& tensor);

  // Collective over the tp group, after gradients are reduced. Every rank returns the same bits.
  double sum_of_squares() const;

 private:
  std::vector<at::Tensor> counted_;  // whole flat buffers where nothing is left out
  Communicator& tensor_;
};

}  // namespace llmtrain
