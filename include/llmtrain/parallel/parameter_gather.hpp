#pragma once

#include <memory>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/plant.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

// Makes weights whole of which every rank of the gradient group owns and updates a part.
//
// Where optimizer state is sharded, once after every update, in place. Where weights are sharded too, a
// segment at a time: it is gathered into its lane one segment ahead of the computation, and stays until the
// lane's next segment comes or weights change. Where nothing is sharded there is nothing to do. It moves
// values and never changes them.
namespace llmtrain {

enum class PassDirection { kForward, kBackward };

class ParameterGather {
 public:
  // `group` is what `parameters` are sharded over. Both outlive this.
  ParameterGather(FlatParameters& parameters, Communicator& group, Plant plant = Plant::kNone);

  // Collective. After own weights have changed: by an update, by initialisation, from a checkpoint.
  void on_update();
  // Collective. Before a segment is computed: its weights, and those that it borrows, are whole from now on
  // until another segment is acquired; the next one in this direction is under way.
  void acquire(SegmentIndex segment, PassDirection direction);

 private:
  void start(SegmentIndex segment);
  void make_whole(SegmentIndex segment);
  void drop(SegmentIndex segment);

  FlatParameters& parameters_;
  Communicator& group_;
  Plant plant_;
  int changes_ = 0;                                // for a planted bug
  std::vector<std::unique_ptr<Pending>> pending_;  // by segment; null = nothing under way
};

}  // namespace llmtrain
