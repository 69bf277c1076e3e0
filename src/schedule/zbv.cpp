#include <algorithm>

#include "generators.hpp"
#include "program_writer.hpp"

// ZB-V: two chunks a stage, down the stages and back up, and the backward in two halves.
//
// The first stage holds both ends of the model, so a backward starts where its forward ended and no stage
// waits for a far end. With forward, input gradient and weight gradient of equal length each stage is busy
// from its first forward to its last weight gradient, with 2 pp half-stage activations in flight: as much as
// 1F1B has on its first stage.
//
// The phases below are laid out for at least 2 pp - 1 micro-batches; with fewer, those that are not there are
// left out, which keeps the order right and leaves some time idle.
namespace llmtrain {

std::vector<Action> zbv_program(const Pipeline& pipeline, int stage) {
  using Next = ProgramWriter::Next;
  constexpr Next kForwardDown{ActionKind::kForward, 0};
  constexpr Next kForwardUp{ActionKind::kForward, 1};
  constexpr Next kInputDown{ActionKind::kInputGradient, 0};
  constexpr Next kInputUp{ActionKind::kInputGradient, 1};
  constexpr Next kWeightDown{ActionKind::kWeightGradient, 0};
  constexpr Next kWeightUp{ActionKind::kWeightGradient, 1};

  const int pp = pipeline.num_stages;
  const int behind = pp - stage;  // this stage and those between it and the turn
  const int num_micro_batches = std::max(pipeline.num_micro_batches, 2 * pp - 1);
  ProgramWriter writer(pipeline.num_micro_batches);
  // Fill: until the first micro-batch is back from the turn, then one down for each that comes up, then
  // backward of the upper chunk as soon as there is one.
  writer.repeat(2 * behind - 1, {kForwardDown});
  writer.repeat(stage, {kForwardUp, kForwardDown});
  writer.repeat(behind, {kForwardUp, kInputUp, kWeightUp});
  // Steady: everything that one micro-batch needs on this stage.
  writer.repeat(num_micro_batches - pp,
                {kForwardDown, kInputDown, kWeightDown, kForwardUp, kInputUp, kWeightUp});
  // Drain: input gradients first, since others wait for them; then the weight gradients put off.
  writer.repeat(stage, {kInputDown, kInputUp});
  writer.repeat(behind, {kInputDown, kWeightDown});
  writer.repeat(stage, {kWeightUp});
  writer.repeat(stage, {kWeightDown});
  return writer.take();
}

}  // namespace llmtrain
