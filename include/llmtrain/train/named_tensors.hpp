#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/tensor_piece.hpp"
#include "llmtrain/optim/optimizer.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

// A rank's state as checkpoints name it: every tensor of the model and its optimizer, and the boxes of it
// that this rank owns.
//
// A flat range of a matrix is at most three boxes: the rest of a row, whole rows, the start of a row. Views
// into memory that stays where it is; nothing is copied.
namespace llmtrain {

inline constexpr char kWeightsKind[] = "weights";
inline constexpr char kOptimizerKind[] = "optimizer";

struct OwnedBox {
  Box box;            // global coordinates
  at::Tensor values;  // [numel of the box]
};

struct NamedTensor {
  const char* kind;  // the shard file it goes to
  TensorInfo info;
  bool is_counted = true;  // this rank, not a tensor-parallel one with the same part, stands for it
  std::vector<OwnedBox> owned;

  std::int64_t owned_bytes() const;
};

// What a checkpoint of a model must hold, whoever has it: the tensors that name_tensors() names on all ranks
// together.
std::vector<TensorInfo> tensor_infos(const std::vector<ParamSpec>& table,
                                     DType compute,
                                     const std::vector<std::string>& optimizer_states);

// Weights, then masters when they are separate, then every state of the optimizer, parameter by parameter.
// The optimizer has a slice for every parameter of which this rank owns something, in table order.
std::vector<NamedTensor> name_tensors(const FlatParameters& parameters, const Optimizer& optimizer);

}  // namespace llmtrain
