#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/dtype.hpp"
#include "llmtrain/core/plant.hpp"

#include "row_chunk.hpp"

// The border of the tensor-parallel regions of a block, where every rank computes with its part of the
// weights; all collectives inside the model are here.
//
// Between regions the ranks hold the same rows (one row per token), or, when the sequence is sharded, an
// equal part of them each, in rank order. Inside, rows are whole and activations partial. Two conjugate
// operations make the border: entering is whole() forward and summed() backward, leaving is the reverse. One
// rank alone passes through both without a copy. Each also comes in a form that leaves time to compute: begun
// now and waited for later, or chunk by chunk beside a product.
namespace llmtrain {

// Rows on their way over the border.
class PendingRows {
 public:
  explicit PendingRows(at::Tensor rows) : rows_(std::move(rows)) {}  // that are there
  PendingRows(at::Tensor rows, std::unique_ptr<Pending> pending)
      : rows_(std::move(rows)), pending_(std::move(pending)) {}

  at::Tensor wait() && {
    if (pending_ != nullptr) pending_->wait();
    return std::move(rows_);
  }

 private:
  at::Tensor rows_;
  std::unique_ptr<Pending> pending_;  // null: nothing is to come
};

struct RegionOptions {
  Communicator* group = nullptr;  // null or one rank = alone
  bool shard_sequence = false;
  int chunks = 1;  // of rows that cross beside a product; 1 = nothing does
  Plant plant = Plant::kNone;
};

class TensorRegion {
 public:
  TensorRegion() = default;  // one rank
  explicit TensorRegion(const RegionOptions& options)
      : group_(options.group != nullptr && options.group->size() > 1 ? options.group : nullptr),
        shard_sequence_(group_ != nullptr && options.shard_sequence),
        chunks_(group_ != nullptr ? options.chunks : 1),
        plant_(options.plant) {}

  bool is_alone() const { return group_ == nullptr; }
  int rank() const { return is_alone() ? 0 : group_->rank(); }
  int size() const { return is_alone() ? 1 : group_->size(); }
  Plant plant() const { return plant_; }
  // Rows are cut into so many equal parts between regions.
  int row_parts() const { return shard_sequence_ ? size() : 1; }

  // Rows as they are between regions -> all rows, on every rank. The argument stays as it is until then.
  at::Tensor whole(const at::Tensor& rows) const;
  PendingRows begin_whole(const at::Tensor& rows) const;
  // The sum over ranks, as rows between regions. May be in place: `partial` is a fresh tensor of the
  // caller's.
  at::Tensor summed(at::Tensor partial) const;
  PendingRows begin_summed(at::Tensor partial) const;
  // [n] -> [size x n], in rank order.
  at::Tensor gathered(const at::Tensor& own) const;

  // whole(), for a computation on `rows` [parts x count, w] of a chunk; the next chunk comes meanwhile.
  using UseChunk = std::function<void(const at::Tensor& rows, const RowChunk& chunk)>;
  void with_whole(const at::Tensor& rows, const UseChunk& use) const;
  // summed(), of `rows` [parts x count, w] of a chunk that are computed meanwhile; `sizes` are those of all.
  using MakeChunk = std::function<void(at::Tensor& rows, const RowChunk& chunk)>;
  at::Tensor summed_of(at::IntArrayRef sizes, DType type, const MakeChunk& make) const;

 private:
  // Else what is begun is done at once: nothing would run beside it.
  bool overlaps() const { return chunks_ > 1; }
  at::Tensor room_for_own(const at::Tensor& all) const;
  std::unique_ptr<Pending> begin_sum(at::Tensor partial, at::Tensor own) const;

  Communicator* group_ = nullptr;
  bool shard_sequence_ = false;
  int chunks_ = 1;
  Plant plant_ = Plant::kNone;
};

}  // namespace llmtrain
