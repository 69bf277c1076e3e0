#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/plant.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

// Sums gradients over the tensor-parallel ranks that hold the same values but each see a part of them: norms
// of own heads, and key/value heads that ranks share.
//
// In place, where the gradients lie. It knows no data-parallel ranks: their reduction comes after this one.
namespace llmtrain {

class ReplicaGradients {
 public:
  // `tensor`: the whole tp group; `replicas`: the part of it that shares key/value heads. All outlive this.
  ReplicaGradients(const FlatParameters& parameters,
                   Communicator& tensor,
                   Communicator& replicas,
                   Plant plant = Plant::kNone);

  // Collective, once per segment and step, after the step's last backward of that segment. Throws CommError.
  void sum(SegmentIndex segment);

 private:
  struct Part {
    Communicator* group;
    at::Tensor grads;  // [n] of one parameter
  };

  std::vector<std::vector<Part>> parts_;  // by segment
};

}  // namespace llmtrain
