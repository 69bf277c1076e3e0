#include "llmtrain/train/rank_pieces.hpp"

namespace llmtrain {
namespace {

template <class Visitor>
void for_each_slice(const FlatParameters& parameters, Visitor&& visit) {
  for (SegmentIndex s = 0; s < parameters.num_segments(); ++s)
    for (const ParamSlice& slice : parameters.segment(s).slices) visit(slice);
}

}  // namespace

std::vector<RankPiece> gradient_pieces(const FlatParameters& parameters) {
  std::vector<RankPiece> pieces;
  for_each_slice(parameters, [&](const ParamSlice& slice) {
    pieces.push_back({.kind = "grad", .name = slice.spec->name, .shard = slice.shard, .values = slice.grad});
  });
  return pieces;
}

std::vector<RankPiece> weight_pieces(const FlatParameters& parameters) {
  std::vector<RankPiece> pieces;
  for_each_slice(parameters, [&](const ParamSlice& slice) {
    pieces.push_back(
        {.kind = "weight", .name = slice.spec->name, .shard = slice.shard, .values = slice.weight});
  });
  return pieces;
}

std::vector<RankPiece> moment_pieces(const FlatParameters& parameters, const Optimizer& optimizer) {
  std::vector<RankPiece> pieces;
  std::size_t index = 0;
  for_each_slice(parameters, [&](const ParamSlice& slice) {
    for (const std::string& state : optimizer.state_names())
      pieces.push_back({.kind = state,
                        .name = state + "." + slice.spec->name,
                        .shard = slice.shard,
                        .values = optimizer.state(index, state)});
    ++index;
  });
  return pieces;
}

}  // namespace llmtrain
