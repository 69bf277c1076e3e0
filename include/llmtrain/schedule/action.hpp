#pragma once

#include <string>

// One entry of a stage's program: what is computed, for which micro-batch, on which of the stage's chunks.
//
// A program holds computations only. What has to be sent and received follows from it (flow.hpp), so that the
// two cannot disagree.
namespace llmtrain {

enum class ActionKind {
  kForward,         // F
  kBackward,        // B: input gradient and weight gradient in one
  kInputGradient,   // I: the half of a backward that the stage before waits for
  kWeightGradient,  // W: the half that nobody waits for
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int chunk = 0;  // which of the stage's virtual stages, counted from the model's input
  int micro_batch = 0;
  friend constexpr bool operator==(const Action&, const Action&) = default;
};

constexpr char letter(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return 'F';
    case ActionKind::kBackward: return 'B';
    case ActionKind::kInputGradient: return 'I';
    case ActionKind::kWeightGradient: return 'W';
  }
  return '?';
}

// B and I make the gradient that travels to the stage before.
constexpr bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kInputGradient;
}
// After B and W nothing of the micro-batch is kept on the chunk.
constexpr bool makes_weight_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kWeightGradient;
}

// The notation of CSV files: virtual stage, letter, micro-batch; "2F0".
std::string notation(int virtual_stage, ActionKind kind, int micro_batch);

}  // namespace llmtrain
