#include <algorithm>

#include "generators.hpp"
#include "program_writer.hpp"

// 1F1B: a stage runs ahead only by as many forwards as it has stages behind it, then backward follows
// forward. As fast as GPipe, with at most pp micro-batches in flight.
namespace llmtrain {

std::vector<Action> one_f_one_b_program(const Pipeline& pipeline, int stage) {
  const int warmup = std::min(pipeline.num_micro_batches, pipeline.num_stages - 1 - stage);
  ProgramWriter writer(pipeline.num_micro_batches);
  writer.repeat(warmup, {{ActionKind::kForward}});
  writer.repeat(pipeline.num_micro_batches - warmup, {{ActionKind::kForward}, {ActionKind::kBackward}});
  writer.repeat(warmup, {{ActionKind::kBackward}});
  return writer.take();
}

}  // namespace llmtrain
