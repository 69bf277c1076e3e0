#include "tensor_region.hpp"

#include "llmtrain/tensor/tensor.hpp"

namespace llmtrain {

at::Tensor TensorRegion::summed(at::Tensor partial) const {
  if (!is_alone()) group_->all_reduce(partial, ReduceOp::kSum);
  return partial;
}

at::Tensor TensorRegion::gathered(const at::Tensor& own) const {
  if (is_alone()) return own;
  at::Tensor all = empty_host({size() * own.numel()}, dtype_of(own.scalar_type()));  // [size x n]
  group_->all_gather(own, all);
  return all;
}

}  // namespace llmtrain
