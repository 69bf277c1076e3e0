#include "tensor_region.hpp"

#include <vector>

#include "llmtrain/core/division.hpp"
#include "llmtrain/tensor/tensor.hpp"

// Shapes: t tokens of the micro-batch, c of a chunk, h width.
namespace llmtrain {

at::Tensor TensorRegion::whole(const at::Tensor& rows) const {
  if (!shard_sequence_) return rows;
  at::Tensor all = empty_host({rows.size(0) * size(), rows.size(1)}, dtype_of(rows.scalar_type()));  // [t, h]
  group_->all_gather(rows, all);
  return all;
}

PendingRows TensorRegion::begin_whole(const at::Tensor& rows) const {
  if (!shard_sequence_ || !overlaps()) return PendingRows(whole(rows));
  at::Tensor all = empty_host({rows.size(0) * size(), rows.size(1)}, dtype_of(rows.scalar_type()));  // [t, h]
  auto pending = group_->all_gather_async(rows, all);
  return {std::move(all), std::move(pending)};
}

at::Tensor TensorRegion::summed(at::Tensor partial) const {
  const bool forgotten = plant_ == Plant::kRegionSum;
  if (!shard_sequence_) {
    if (!is_alone() && !forgotten) group_->all_reduce(partial, ReduceOp::kSum);
    return partial;
  }
  at::Tensor rows = room_for_own(partial);  // [t / ranks, h]
  if (forgotten) return rows.copy_(partial.narrow(0, rank() * rows.size(0), rows.size(0)));
  group_->reduce_scatter(partial, rows, ReduceOp::kSum);
  return rows;
}

PendingRows TensorRegion::begin_summed(at::Tensor partial) const {
  if (!overlaps() || plant_ == Plant::kRegionSum) return PendingRows(summed(std::move(partial)));
  at::Tensor rows = room_for_own(partial);  // [t / parts, h]
  auto pending = begin_sum(std::move(partial), rows);
  return {std::move(rows), std::move(pending)};
}

at::Tensor TensorRegion::gathered(const at::Tensor& own) const {
  if (is_alone()) return own;
  at::Tensor all = empty_host({size() * own.numel()}, dtype_of(own.scalar_type()));  // [size x n]
  group_->all_gather(own, all);
  return all;
}

void TensorRegion::with_whole(const at::Tensor& rows, const UseChunk& use) const {
  const std::int64_t tokens = rows.size(0) * row_parts();
  const std::vector<RowChunk> chunks = RowChunk::cut(tokens, row_parts(), shard_sequence_ ? chunks_ : 1);
  if (chunks.size() == 1) return use(whole(rows), chunks.front());
  const at::Tensor stacked = empty_host({tokens, rows.size(1)}, dtype_of(rows.scalar_type()));  // [t, h]
  const auto begin = [&](const RowChunk& chunk) {
    at::Tensor all = chunk.in_row(stacked);  // [c, h]
    return group_->all_gather_async(rows.narrow(0, chunk.first(), chunk.count()), all);
  };
  std::unique_ptr<Pending> coming = begin(chunks.front());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    coming->wait();
    if (i + 1 < chunks.size()) coming = begin(chunks[i + 1]);
    use(chunks[i].in_row(stacked), chunks[i]);
  }
}

at::Tensor TensorRegion::summed_of(at::IntArrayRef sizes, DType type, const MakeChunk& make) const {
  const int most = plant_ == Plant::kRegionSum ? 1 : chunks_;
  const std::vector<RowChunk> chunks = RowChunk::cut(sizes[0], row_parts(), most);
  at::Tensor stacked = empty_host(sizes, type);  // [t, h]
  if (chunks.size() == 1) {
    make(stacked, chunks.front());
    return summed(std::move(stacked));
  }
  at::Tensor rows = room_for_own(stacked);  // [t / parts, h]
  std::vector<std::unique_ptr<Pending>> under_way;
  for (const RowChunk& chunk : chunks) {
    at::Tensor partial = chunk.in_row(stacked);  // [c, h]
    make(partial, chunk);
    under_way.push_back(begin_sum(partial, rows.narrow(0, chunk.first(), chunk.count())));
  }
  for (const std::unique_ptr<Pending>& sum : under_way) sum->wait();
  return rows;
}

// Where ranks hold the same rows, the sum is in place.
at::Tensor TensorRegion::room_for_own(const at::Tensor& all) const {
  if (!shard_sequence_) return all;
  return empty_host({exact_div(all.size(0), size()), all.size(1)}, dtype_of(all.scalar_type()));
}

std::unique_ptr<Pending> TensorRegion::begin_sum(at::Tensor partial, at::Tensor own) const {
  if (!shard_sequence_) return group_->all_reduce_async(partial, ReduceOp::kSum);
  return group_->reduce_scatter_async(partial, own, ReduceOp::kSum);
}

}  // namespace llmtrain
