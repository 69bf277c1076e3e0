#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/reader.hpp"

// Do two checkpoints hold the same training state? Compared bit by bit, streamed in bounded memory.
//
// Compared: every tensor (weights, master weights, moments), step, sample cursor, tokens, seed, the
// optimizer's own count and what parts keep under `extra`. Not compared: what says where and when a run
// took place (layout, machine, epoch, times, spec text, file names), so that a run that was restarted or
// laid out differently can be identical to one that was not.
namespace llmtrain {

struct ValueDifference {
  std::string name;  // "step", "extra.loss_scale"
  std::string a;
  std::string b;
};

struct TensorDifference {
  std::string name;
  std::string problem;  // why the values could not be compared; empty: they were
  std::int64_t num_elements = 0;
  std::int64_t num_different = 0;  // elements whose bits differ
  double max_abs = 0;              // infinite when one of two numbers is not finite
  double max_rel = 0;              // max_abs over the largest magnitude in a
};

struct CheckpointDiff {
  std::vector<ValueDifference> values;
  std::vector<TensorDifference> tensors;  // those that differ, ascending names
  std::size_t num_tensors = 0;            // in a or b

  bool identical() const { return values.empty() && tensors.empty(); }
  std::string verdict() const;  // "identical", or "different: step, 3 of 120 tensors"
};

Result<CheckpointDiff> diff_checkpoints(CheckpointReader& a, CheckpointReader& b);

}  // namespace llmtrain
