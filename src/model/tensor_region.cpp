#include "tensor_region.hpp"

#include "llmtrain/core/division.hpp"
#include "llmtrain/tensor/tensor.hpp"

// Shapes: t tokens of the micro-batch, h width.
namespace llmtrain {

at::Tensor TensorRegion::whole(const at::Tensor& rows) const {
  if (!shard_sequence_) return rows;
  at::Tensor all = empty_host({rows.size(0) * size(), rows.size(1)}, dtype_of(rows.scalar_type()));  // [t, h]
  group_->all_gather(rows, all);
  return all;
}

at::Tensor TensorRegion::summed(at::Tensor partial) const {
  const bool forgotten = plant_ == Plant::kRegionSum;
  if (!shard_sequence_) {
    if (!is_alone() && !forgotten) group_->all_reduce(partial, ReduceOp::kSum);
    return partial;
  }
  at::Tensor rows = empty_host({exact_div(partial.size(0), size()), partial.size(1)},
                               dtype_of(partial.scalar_type()));  // [t / ranks, h]
  if (forgotten) return rows.copy_(partial.narrow(0, rank() * rows.size(0), rows.size(0)));
  group_->reduce_scatter(partial, rows, ReduceOp::kSum);
  return rows;
}

at::Tensor TensorRegion::gathered(const at::Tensor& own) const {
  if (is_alone()) return own;
  at::Tensor all = empty_host({size() * own.numel()}, dtype_of(own.scalar_type()));  // [size x n]
  group_->all_gather(own, all);
  return all;
}

}  // namespace llmtrain
