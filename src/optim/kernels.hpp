#pragma once

#include <cstdint>

// The inner loops of the optimizers over raw memory: one pass, no tensors, no threads.
//
// Overloads without `weight` are for weights that are their own masters; the others round masters into
// weights of a narrow type.
namespace llmtrain::kernels {

enum class Narrow { kBf16, kFp16 };

// Weights of 16 bits each.
struct NarrowWeights {
  std::uint16_t* bits;
  Narrow type;
};

template <class T>
struct AdamWStep {
  T grad_scale;
  T keep;  // 1 - lr * weight_decay, or 1
  T one_minus_beta1;
  T beta2;
  T one_minus_beta2;
  T bias2_root;  // sqrt(1 - beta2^t)
  T eps;
  T minus_step_size;  // -lr / (1 - beta1^t)
};

void adamw(const AdamWStep<float>& s, std::int64_t n, const float* grad, float* m, float* v, float* master);
void adamw(
    const AdamWStep<double>& s, std::int64_t n, const double* grad, double* m, double* v, double* master);
void adamw(const AdamWStep<float>& s,
           std::int64_t n,
           const float* grad,
           float* m,
           float* v,
           float* master,
           NarrowWeights weight);

template <class T>
struct SgdStep {
  T grad_scale;
  T keep;
  T momentum;
  T minus_lr;
};

// `buffer` is null without momentum.
void sgd(const SgdStep<float>& s, std::int64_t n, const float* grad, float* buffer, float* master);
void sgd(const SgdStep<double>& s, std::int64_t n, const double* grad, double* buffer, double* master);
void sgd(const SgdStep<float>& s,
         std::int64_t n,
         const float* grad,
         float* buffer,
         float* master,
         NarrowWeights weight);

// Sixteen interleaved fp64 sums, added up in order.
double sum_of_squares(const float* x, std::int64_t n);
double sum_of_squares(const double* x, std::int64_t n);

}  // namespace llmtrain::kernels
