#pragma once

#include <memory>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

// Sums the main gradients of all data-parallel ranks while the backward pass still runs.
//
// One flat buffer per segment of the model (embedding, each block, head) is one bucket: its reduction
// starts when the backward of the step's last micro-batch is through with that segment, and runs behind
// the segments before it. The sum is in place, in the buffer's own type; nothing is divided: the loss is
// scaled before backward. Where optimizer state is sharded, a rank gets the sum of its own part alone.
// Knowing which micro-batch is the last one is the caller's business.
namespace llmtrain {

class GradientReducer {
 public:
  // `group` is what `parameters` are sharded over, if they are. Both outlive the reducer.
  GradientReducer(const FlatParameters& parameters, Communicator& group);

  // Once per segment and step, in the same order on all ranks. The buffer is not to be touched until
  // finish().
  void on_gradient_ready(SegmentIndex segment);
  // Waits until every segment is reduced. A segment that was not announced would keep a local gradient:
  // that is a broken invariant. Throws CommError when a peer is lost; the gradients are void then.
  void finish();

 private:
  const FlatParameters& parameters_;
  Communicator& group_;
  std::vector<std::unique_ptr<Pending>> pending_;  // by segment; null = not announced in this step
};

}  // namespace llmtrain
