#include "kernels.hpp"

#include <bit>
#include <cmath>

#include "llmtrain/core/half_floats.hpp"

#include "isa_clones.hpp"

// Bodies are templates that are always inlined into the clones below: a clone cannot be a template.
#define LLMTRAIN_BODY             \
  template <class T, class Store> \
  inline __attribute__((always_inline)) void

namespace llmtrain::kernels {
namespace {

// To nearest, ties to even; any NaN becomes the quiet one.
inline __attribute__((always_inline)) std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

LLMTRAIN_BODY adamw_body(const AdamWStep<T> s,
                         std::int64_t n,
                         const T* __restrict grad,
                         T* __restrict m,
                         T* __restrict v,
                         T* __restrict master,
                         Store store) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T g = grad[i] * s.grad_scale;
    const T first = m[i] + (g - m[i]) * s.one_minus_beta1;
    const T second = v[i] * s.beta2 + s.one_minus_beta2 * g * g;
    const T denominator = std::sqrt(second) / s.bias2_root + s.eps;
    const T p = master[i] * s.keep + s.minus_step_size * first / denominator;
    m[i] = first;
    v[i] = second;
    master[i] = p;
    store(i, p);
  }
}

LLMTRAIN_BODY sgd_body(const SgdStep<T> s,
                       std::int64_t n,
                       const T* __restrict grad,
                       T* __restrict buffer,
                       T* __restrict master,
                       Store store) {
  if (buffer == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) {
      const T p = master[i] * s.keep + s.minus_lr * (grad[i] * s.grad_scale);
      master[i] = p;
      store(i, p);
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const T b = buffer[i] * s.momentum + grad[i] * s.grad_scale;
    const T p = master[i] * s.keep + s.minus_lr * b;
    buffer[i] = b;
    master[i] = p;
    store(i, p);
  }
}

template <class T>
inline __attribute__((always_inline)) double sum_of_squares_body(const T* x, std::int64_t n) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) {
      const auto value = static_cast<double>(x[i + j]);
      lanes[j] += value * value;
    }
  for (; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    lanes[i % kLanes] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

constexpr auto kNoStore = [](std::int64_t, auto) {};

}  // namespace

LLMTRAIN_ISA_CLONES
void adamw(const AdamWStep<float>& s, std::int64_t n, const float* grad, float* m, float* v, float* master) {
  adamw_body(s, n, grad, m, v, master, kNoStore);
}

LLMTRAIN_ISA_CLONES
void adamw(
    const AdamWStep<double>& s, std::int64_t n, const double* grad, double* m, double* v, double* master) {
  adamw_body(s, n, grad, m, v, master, kNoStore);
}

LLMTRAIN_ISA_CLONES
void adamw(const AdamWStep<float>& s,
           std::int64_t n,
           const float* grad,
           float* m,
           float* v,
           float* master,
           NarrowWeights weight) {
  std::uint16_t* const __restrict bits = weight.bits;
  if (weight.type == Narrow::kFp16)
    adamw_body(s, n, grad, m, v, master, [bits](std::int64_t i, float p) { bits[i] = fp16_of_float(p); });
  else
    adamw_body(s, n, grad, m, v, master, [bits](std::int64_t i, float p) { bits[i] = round_to_bf16(p); });
}

LLMTRAIN_ISA_CLONES
void sgd(const SgdStep<float>& s, std::int64_t n, const float* grad, float* buffer, float* master) {
  sgd_body(s, n, grad, buffer, master, kNoStore);
}

LLMTRAIN_ISA_CLONES
void sgd(const SgdStep<double>& s, std::int64_t n, const double* grad, double* buffer, double* master) {
  sgd_body(s, n, grad, buffer, master, kNoStore);
}

LLMTRAIN_ISA_CLONES
void sgd(const SgdStep<float>& s,
         std::int64_t n,
         const float* grad,
         float* buffer,
         float* master,
         NarrowWeights weight) {
  std::uint16_t* const __restrict bits = weight.bits;
  if (weight.type == Narrow::kFp16)
    sgd_body(s, n, grad, buffer, master, [bits](std::int64_t i, float p) { bits[i] = fp16_of_float(p); });
  else
    sgd_body(s, n, grad, buffer, master, [bits](std::int64_t i, float p) { bits[i] = round_to_bf16(p); });
}

LLMTRAIN_ISA_CLONES
double sum_of_squares(const float* x, std::int64_t n) {
  return sum_of_squares_body(x, n);
}

LLMTRAIN_ISA_CLONES
double sum_of_squares(const double* x, std::int64_t n) {
  return sum_of_squares_body(x, n);
}

}  // namespace llmtrain::kernels
