#include <algorithm>

#include "generators.hpp"
#include "program_writer.hpp"

// ZB-H1: 1F1B with the backward in two halves. The input gradient goes on to the stage before at once; weight
// gradients wait. Stage i lets i of them gather, so that what remains for the end fills the time in which it
// would stand idle, and every stage has pp micro-batches in flight: no more than 1F1B has on its first.
namespace llmtrain {

std::vector<Action> zb_h1_program(const Pipeline& pipeline, int stage) {
  const int num_micro_batches = pipeline.num_micro_batches;
  const int warmup = std::min(num_micro_batches, pipeline.num_stages - 1 - stage);
  const int delayed = std::min(num_micro_batches, stage);
  ProgramWriter writer(num_micro_batches);
  writer.repeat(warmup, {{ActionKind::kForward}});
  writer.repeat(delayed, {{ActionKind::kForward}, {ActionKind::kInputGradient}});
  writer.repeat(num_micro_batches - delayed,
                {{ActionKind::kForward}, {ActionKind::kInputGradient}, {ActionKind::kWeightGradient}});
  writer.repeat(delayed, {{ActionKind::kWeightGradient}});
  return writer.take();
}

}  // namespace llmtrain
