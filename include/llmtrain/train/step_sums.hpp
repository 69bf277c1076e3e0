#pragma once

#include <cstdint>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/core/plant.hpp"

// What the ranks of a job must agree on once a step, summed in a single small collective.
//
// The loss is summed first and divided once, so it does not depend on how the batch is cut; the flags
// ride along, so that all ranks skip, stop and go on alike. Tensor-parallel ranks compute the same loss
// together: the first of them counts it. Sequence-parallel ranks count their own tokens each.
namespace llmtrain {

struct StepSums {
  double loss_sum = 0;        // of token losses
  double valid_tokens = 0;    // labels that count
  double not_finite = 0;      // > 0: some rank saw a NaN or an infinity
  double stop_requested = 0;  // > 0: some rank was asked to stop

  double mean_loss() const { return valid_tokens > 0 ? loss_sum / valid_tokens : 0; }
};

// Collective over the world; every rank returns the same sums.
StepSums sum_over_ranks(MeshComms& comms, StepSums local, Plant plant = Plant::kNone);

}  // namespace llmtrain
