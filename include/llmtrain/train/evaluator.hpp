#pragma once

#include <cstdint>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/data/batch.hpp"
#include "llmtrain/monitor/events.hpp"
#include "llmtrain/placement/sequence_cut.hpp"
#include "llmtrain/train/pipeline.hpp"

// Scores the model on a fixed set of validation samples, each counted once over all ranks.
//
// The sum of token losses over the number of tokens: it does not depend on the layout or the batch.
namespace llmtrain {

class Evaluator {
 public:
  Evaluator(EvalPlan plan, const SequenceCut& cut, Pipeline& pipeline, MeshComms& comms)
      : plan_(std::move(plan)), cut_(cut), pipeline_(pipeline), comms_(comms) {}

  // Collective over the world. Throws DataError and CommError.
  EvalReport run(std::int64_t step);

 private:
  EvalPlan plan_;
  SequenceCut cut_;
  Pipeline& pipeline_;
  MeshComms& comms_;
};

}  // namespace llmtrain
