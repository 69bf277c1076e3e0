#include "kept_block.hpp"

#include <ATen/core/grad_mode.h>

#include "llmtrain/tensor/gradient_node.hpp"

namespace llmtrain {

KeptBlock block_forward(const at::Tensor& x,
                        const BlockWeights& w,
                        const SequenceLayout& layout,
                        const RopeTables& rope,
                        const GradientContext& context,
                        Recompute recompute) {
  const at::AutoGradMode graph(recompute != Recompute::kFull);
  const BlockPass pass{.keeps_all = recompute != Recompute::kSelective};
  const at::Tensor input = leaf_of(x);                                              // [b s, h]
  return {.input = input, .output = block(input, w, layout, rope, context, pass)};  // [b s, h]
}

at::Tensor block_backward(KeptBlock&& kept,
                          const at::Tensor& d_output,
                          const BlockWeights& w,
                          const SequenceLayout& layout,
                          const RopeTables& rope,
                          const GradientContext& context,
                          Recompute recompute) {
  const KeptBlock own = std::move(kept);
  if (recompute != Recompute::kFull) return backward_through(own.output, d_output, own.input);
  const at::AutoGradMode graph(true);
  const at::Tensor again = block(own.input, w, layout, rope, context, {.wants_values = false});  // [b s, h]
  return backward_through(again, d_output, own.input);                                           // [b s, h]
}

}  // namespace llmtrain
