#pragma once

#include <vector>

#include "llmtrain/optim/optimizer.hpp"

// AdamW with decoupled weight decay: PyTorch's formula in PyTorch's order, in the masters' type.
//
//   g = grad * grad_scale
//   p = p * (1 - lr * weight_decay)              slices that take decay
//   m = m + (g - m) * (1 - beta1)
//   v = v * beta2 + (1 - beta2) * g * g
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)        t = count()
//
// Coefficients are computed in fp64 and rounded once; no multiply-add is fused. With a zero gradient from the
// start m and v stay zero and only the decay acts.
namespace llmtrain {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.0;
};

class AdamW final : public Optimizer {
 public:
  AdamW(const AdamWOptions& options, std::vector<OptimizerSlice> slices);

 private:
  void update(double lr, double grad_scale) override;

  AdamWOptions options_;
};

}  // namespace llmtrain
