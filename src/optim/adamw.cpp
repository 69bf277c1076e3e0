#include "llmtrain/optim/adamw.hpp"

#include <cmath>

#include "kernels.hpp"
#include "slice_memory.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kFirst = 0;   // exp_avg
constexpr std::size_t kSecond = 1;  // exp_avg_sq

template <class T>
kernels::AdamWStep<T> coefficients(const AdamWOptions& o, std::int64_t count, double lr, double grad_scale) {
  const auto t = static_cast<double>(count);
  return {.grad_scale = static_cast<T>(grad_scale),
          .keep = static_cast<T>(1 - lr * o.weight_decay),
          .one_minus_beta1 = static_cast<T>(1 - o.beta1),
          .beta2 = static_cast<T>(o.beta2),
          .one_minus_beta2 = static_cast<T>(1 - o.beta2),
          .bias2_root = static_cast<T>(std::sqrt(1 - std::pow(o.beta2, t))),
          .eps = static_cast<T>(o.eps),
          .minus_step_size = static_cast<T>(-(lr / (1 - std::pow(o.beta1, t))))};
}

}  // namespace

AdamW::AdamW(const AdamWOptions& options, std::vector<OptimizerSlice> slices)
    : Optimizer(std::move(slices), {"exp_avg", "exp_avg_sq"}), options_(options) {}

void AdamW::update(double lr, double grad_scale) {
  const auto single = coefficients<float>(options_, count(), lr, grad_scale);
  const auto full = coefficients<double>(options_, count(), lr, grad_scale);
  for_each_part([&](std::size_t i, std::int64_t begin, std::int64_t end) {
    const OptimizerSlice& slice = slices()[i];
    const at::Tensor& m = state(i, kFirst);
    const at::Tensor& v = state(i, kSecond);
    const auto run = [&]<class T>(kernels::AdamWStep<T> step, auto... weight) {
      if (!slice.decay) step.keep = 1;
      kernels::adamw(step,
                     end - begin,
                     data_from<T>(slice.grad, begin),
                     data_from<T>(m, begin),
                     data_from<T>(v, begin),
                     data_from<T>(slice.master, begin),
                     weight...);
    };
    if (slice.master.scalar_type() == at::kDouble) {
      run(full);
    } else if (has_narrow_weight(slice)) {
      run(single, narrow_weights_from(slice, begin));
    } else {
      run(single);
    }
  });
}

}  // namespace llmtrain
