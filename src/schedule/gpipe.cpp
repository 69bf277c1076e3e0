#include "generators.hpp"
#include "program_writer.hpp"

// GPipe: all forwards, then all backwards. Simple, and every micro-batch is in flight at once.
namespace llmtrain {

std::vector<Action> gpipe_program(const Pipeline& pipeline, int /*stage*/) {
  ProgramWriter writer(pipeline.num_micro_batches);
  writer.repeat(pipeline.num_micro_batches, {{ActionKind::kForward}});
  writer.repeat(pipeline.num_micro_batches, {{ActionKind::kBackward}});
  return writer.take();
}

}  // namespace llmtrain
