#pragma once

#include <cstdint>
#include <optional>

#include "llmtrain/optim/loss_scaler.hpp"

// Where a run stands: the part of its state that is not a tensor. Saved in every checkpoint's manifest.
namespace llmtrain {

struct Progress {
  std::int64_t step = 0;     // finished steps
  std::int64_t samples = 0;  // global sample cursor: samples consumed since step 0
  std::int64_t tokens = 0;   // samples x sequence length
  std::int64_t skipped = 0;  // steps whose update was skipped because a number was not finite
  std::int64_t skipped_in_a_row = 0;
  std::optional<LossScale> loss_scale;  // fp16 only
  bool evaluation_owed = false;         // a stop came between this step and its evaluation
};

}  // namespace llmtrain
