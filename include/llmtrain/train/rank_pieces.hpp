#pragma once

#include <string>
#include <vector>

#include "llmtrain/optim/optimizer.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

// What a rank holds of the model, as pieces of global tensors: the one place where a proof learns how state
// is cut.
//
// Views of live memory, in table order. Copies that ranks hold alike are pieces of every one of them.
namespace llmtrain {

struct RankPiece {
  std::string kind;  // grad, weight, or the optimizer's name of a state
  std::string name;  // of the parameter, or "exp_avg." and the like before it
  ParamShard shard;  // element i is shard.global_index(first + i) of the flattened global tensor
  std::int64_t first = 0;
  at::Tensor values;  // [n]
};

std::vector<RankPiece> gradient_pieces(const FlatParameters& parameters);
std::vector<RankPiece> weight_pieces(const FlatParameters& parameters);
std::vector<RankPiece> moment_pieces(const FlatParameters& parameters, const Optimizer& optimizer);

}  // namespace llmtrain
