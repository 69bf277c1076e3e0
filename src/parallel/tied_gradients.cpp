#include "llmtrain/parallel/tied_gradients.hpp"

#include "llmtrain/core/check.hpp"

namespace llmtrain {

TiedGradients::TiedGradients(FlatParameters& parameters, Communicator& ends, Plant plant)
    : parameters_(parameters), ends_(ends), plant_(plant) {
  LLMTRAIN_CHECK(ends.size() == 1 || ends.size() == 2, "an embedding tied over {} stages", ends.size());
}

void TiedGradients::sum() {
  if (ends_.size() == 1 || plant_ == Plant::kTiedStages) return;
  at::Tensor own = parameters_.segment(0).own_grads;  // [own]
  ends_.all_reduce(own, ReduceOp::kSum);
}

}  // namespace llmtrain
