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
    if (slice.owned.size() == 0) return;
    pieces.push_back({.kind = "grad",
                      .name = slice.spec->name,
                      .shard = slice.shard,
                      .first = slice.owned.begin,
                      .values = slice.own_grad});
  });
  return pieces;
}

std::vector<RankPiece> weight_pieces(const FlatParameters& parameters) {
  // Weights that every rank holds whole are compared whole: gathering them is part of what is proven.
  const bool whole = !parameters.zero().shards_weights();
  std::vector<RankPiece> pieces;
  for_each_slice(parameters, [&](const ParamSlice& slice) {
    if (!whole && slice.owned.size() == 0) return;
    pieces.push_back({.kind = "weight",
                      .name = slice.spec->name,
                      .shard = slice.shard,
                      .first = whole ? 0 : slice.owned.begin,
                      .values = whole ? slice.weight : slice.own_weight});
  });
  return pieces;
}

std::vector<RankPiece> moment_pieces(const FlatParameters& parameters, const Optimizer& optimizer) {
  std::vector<RankPiece> pieces;
  std::size_t index = 0;  // the optimizer has a slice for every parameter of which this rank owns something
  for_each_slice(parameters, [&](const ParamSlice& slice) {
    if (slice.owned.size() == 0) return;
    for (const std::string& state : optimizer.state_names())
      pieces.push_back({.kind = state,
                        .name = state + "." + slice.spec->name,
                        .shard = slice.shard,
                        .first = slice.owned.begin,
                        .values = optimizer.state(index, state)});
    ++index;
  });
  return pieces;
}

}  // namespace llmtrain
