#pragma once

#include "llmtrain/comm/communicator.hpp"

// The border of the tensor-parallel regions of a block, where every rank computes with its part of the
// weights; all collectives inside the model are here.
//
// Between regions the ranks hold the same rows. Inside, activations are partial. Two conjugate operations
// make the border: entering is whole() forward and summed() backward, leaving is the reverse. One rank alone
// passes through both without a copy.
namespace llmtrain {

class TensorRegion {
 public:
  TensorRegion() = default;  // one rank
  explicit TensorRegion(Communicator* group)
      : group_(group != nullptr && group->size() > 1 ? group : nullptr) {}

  bool is_alone() const { return group_ == nullptr; }
  int rank() const { return is_alone() ? 0 : group_->rank(); }
  int size() const { return is_alone() ? 1 : group_->size(); }

  // Rows as they are between regions -> all rows, on every rank.
  at::Tensor whole(const at::Tensor& rows) const { return rows; }
  // The sum over ranks, as rows between regions. In place: `partial` is a fresh tensor of the caller's.
  at::Tensor summed(at::Tensor partial) const;
  // [n] -> [size x n], in rank order.
  at::Tensor gathered(const at::Tensor& own) const;

 private:
  Communicator* group_ = nullptr;
};

}  // namespace llmtrain
