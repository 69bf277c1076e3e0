#pragma once

#include <vector>

#include "llmtrain/optim/optimizer.hpp"

// SGD with momentum as in PyTorch (no dampening, no Nesterov), but with decoupled weight decay.
//
//   g = grad * grad_scale
//   p = p * (1 - lr * weight_decay)      slices that take decay; PyTorch would add weight_decay * p to g
//   b = momentum * b + g                 b starts at zero, so that the first b is g
//   p = p - lr * b
//
// Without momentum there is no state and b = g.
namespace llmtrain {

struct SgdOptions {
  double momentum = 0.0;
  double weight_decay = 0.0;
};

class Sgd final : public Optimizer {
 public:
  Sgd(const SgdOptions& options, std::vector<OptimizerSlice> slices);

 private:
  void update(double lr, double grad_scale) override;

  SgdOptions options_;
};

}  // namespace llmtrain
