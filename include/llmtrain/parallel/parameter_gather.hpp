#pragma once

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

// Makes weights whole of which every rank of the gradient group updates its own part.
//
// Where nothing is sharded there is nothing to do. It moves values and never changes them.
namespace llmtrain {

class ParameterGather {
 public:
  // `group` is what `parameters` are sharded over. Both outlive this.
  ParameterGather(FlatParameters& parameters, Communicator& group);

  // Collective. After own weights have changed: by an update, by initialisation, from a checkpoint.
  void on_update();

 private:
  FlatParameters& parameters_;
  Communicator& group_;
};

}  // namespace llmtrain
