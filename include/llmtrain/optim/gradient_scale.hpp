#pragma once

#include <cstdint>

// From the sum of squared gradients over all ranks to the one factor that the optimizer applies: numbers
// only.
namespace llmtrain {

struct GradientScale {
  double norm = 0;     // of the corrected gradients, before clipping: the norm that is logged
  double scale = 1;    // what gradients are multiplied by: correction and clipping together
  bool finite = true;  // false: the step must be skipped; scale is then 0
};

// Backward was seeded with 1 / nominal; the loss is a mean over `valid` tokens. A batch without any valid
// token has zero gradients, and 1 keeps them so.
double token_correction(std::int64_t nominal_tokens, std::int64_t valid_tokens);

// Clips as PyTorch does: min(1, max_norm / (norm + 1e-6)); max_norm 0 = never. A zero norm is an ordinary
// norm: the step takes place and weight decay acts.
GradientScale gradient_scale(double sum_of_squares, double correction, double max_norm);

}  // namespace llmtrain
