#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/plant.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

// Sums the gradient of an embedding that the head computes with too, where the two lie on different pipeline
// stages: both hold the whole segment, and each saw a part of its gradient.
//
// Both then make the same update, bit for bit, of which one is a copy. It knows no data-parallel ranks: their
// reduction comes before this one, and where state is sharded, ranks with the same range meet here.
namespace llmtrain {

class TiedGradients {
 public:
  // `ends`: this rank and the one at the other end of the pipeline; alone where nothing is to be done. Both
  // outlive this.
  TiedGradients(FlatParameters& parameters, Communicator& ends, Plant plant = Plant::kNone);

  // Collective over the two, after gradients are reduced over the gradient group. Throws CommError.
  void sum();

 private:
  FlatParameters& parameters_;
  Communicator& ends_;
  Plant plant_;
};

}  // namespace llmtrain
