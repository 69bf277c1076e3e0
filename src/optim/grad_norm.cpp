#include "llmtrain/optim/grad_norm.hpp"

#include <algorithm>

#include <ATen/Parallel.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"

#include "kernels.hpp"

namespace llmtrain {
namespace {

// Part of the result's definition: the order of additions follows from it.
constexpr std::int64_t kChunk = 1 << 14;

template <class T>
double sum_over_chunks(const T* data, std::int64_t n) {
  if (n <= kChunk) return kernels::sum_of_squares(data, n);
  std::vector<double> partial(static_cast<std::size_t>(ceil_div(n, kChunk)));
  at::parallel_for(
      0, static_cast<std::int64_t>(partial.size()), 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c)
          partial[static_cast<std::size_t>(c)] =
              kernels::sum_of_squares(data + c * kChunk, std::min(kChunk, n - c * kChunk));
      });
  double sum = 0;
  for (const double p : partial) sum += p;
  return sum;
}

}  // namespace

double sum_of_squares(const at::Tensor& tensor) {
  LLMTRAIN_CHECK(tensor.defined() && tensor.is_contiguous() && tensor.is_cpu(),
                 "needs a contiguous CPU tensor");
  if (tensor.scalar_type() == at::kDouble)
    return sum_over_chunks(static_cast<const double*>(tensor.const_data_ptr()), tensor.numel());
  LLMTRAIN_CHECK(tensor.scalar_type() == at::kFloat, "main gradients are fp32 or fp64");
  return sum_over_chunks(static_cast<const float*>(tensor.const_data_ptr()), tensor.numel());
}

double sum_of_squares(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += sum_of_squares(tensor);
  return sum;
}

}  // namespace llmtrain
