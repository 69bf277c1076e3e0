#pragma once

#include "block.hpp"

// A block's forward pass, kept until its backward: whole, without what is cheap to compute again, or its
// input only.
//
// How much is kept changes neither values nor gradients by a bit. What is computed again is computed by the
// same code with the same ranks, so a group must agree on it; weights must be whole in backward as they are
// in forward.
namespace llmtrain {

struct KeptBlock {
  at::Tensor input;   // [b s, h] leaf
  at::Tensor output;  // [b s, h] with the graph behind it, unless everything is computed again
};

KeptBlock block_forward(const at::Tensor& x,
                        const BlockWeights& w,
                        const SequenceLayout& layout,
                        const RopeTables& rope,
                        const GradientContext& context,
                        Recompute recompute);

// The gradient of the input. Weight gradients go through the context's runner.
at::Tensor block_backward(KeptBlock&& kept,
                          const at::Tensor& d_output,
                          const BlockWeights& w,
                          const SequenceLayout& layout,
                          const RopeTables& rope,
                          const GradientContext& context,
                          Recompute recompute);

}  // namespace llmtrain
