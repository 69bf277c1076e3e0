#pragma once

#include <vector>

#include "llmtrain/schedule/schedule.hpp"

// How much a stage has to keep: a count of activations, not of bytes.
//
// A micro-batch is in flight on a chunk from its forward to the end of its backward (B, or W). Since a stage
// runs its program in order, the peak does not depend on time. The unit is one micro-batch on one chunk:
// with v chunks on a stage, a v-th of what the stage's layers keep for a micro-batch.
namespace llmtrain {

struct InFlight {
  int peak = 0;
  std::vector<int> by_chunk;  // at the (first) peak
  int peak_deferred = 0;  // most micro-batches between their I and their W, which keep less than the others
};

// One for each stage.
std::vector<InFlight> in_flight(const Schedule& schedule);

}  // namespace llmtrain
