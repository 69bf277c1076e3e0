#pragma once

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/plant.hpp"

// The border of the tensor-parallel regions of a block, where every rank computes with its part of the
// weights; all collectives inside the model are here.
//
// Between regions the ranks hold the same rows (one row per token), or, when the sequence is sharded, an
// equal part of them each, in rank order. Inside, rows are whole and activations partial. Two conjugate
// operations make the border: entering is whole() forward and summed() backward, leaving is the reverse. One
// rank alone passes through both without a copy.
namespace llmtrain {

class TensorRegion {
 public:
  TensorRegion() = default;  // one rank
  TensorRegion(Communicator* group, bool shard_sequence, Plant plant = Plant::kNone)
      : group_(group != nullptr && group->size() > 1 ? group : nullptr),
        shard_sequence_(group_ != nullptr && shard_sequence),
        plant_(plant) {}

  bool is_alone() const { return group_ == nullptr; }
  int rank() const { return is_alone() ? 0 : group_->rank(); }
  int size() const { return is_alone() ? 1 : group_->size(); }
  Plant plant() const { return plant_; }
  // Rows are cut into so many equal parts between regions.
  int row_parts() const { return shard_sequence_ ? size() : 1; }

  // Rows as they are between regions -> all rows, on every rank.
  at::Tensor whole(const at::Tensor& rows) const;
  // The sum over ranks, as rows between regions. May be in place: `partial` is a fresh tensor of the
  // caller's.
  at::Tensor summed(at::Tensor partial) const;
  // [n] -> [size x n], in rank order.
  at::Tensor gathered(const at::Tensor& own) const;

 private:
  Communicator* group_ = nullptr;
  bool shard_sequence_ = false;
  Plant plant_ = Plant::kNone;
};

}  // namespace llmtrain
