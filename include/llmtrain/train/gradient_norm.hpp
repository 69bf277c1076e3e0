#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/plant.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

namespace llmtrain {

// The squared norm of the gradient of the whole model, each parameter counted once on every layout: of the
// tensor-parallel ranks that hold the same values, one counts them, and where state is sharded a rank counts
// what it owns.
class GradientNorm {
 public:
  // `shards`: the ranks that share one copy of sharded state. All outlive this.
  GradientNorm(const FlatParameters& parameters,
               Communicator& tensor,
               Communicator& shards,
               Communicator& pipeline,
               Plant plant = Plant::kNone);

  // Collective over the groups whose ranks count different elements, after gradients are reduced. Every rank
  // returns the same bits.
  double sum_of_squares() const;

 private:
  std::vector<at::Tensor> counted_;  // whole flat ranges where nothing is left out
  std::vector<Communicator*> groups_;
};

}  // namespace llmtrain
