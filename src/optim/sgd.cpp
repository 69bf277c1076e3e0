#include "llmtrain/optim/sgd.hpp"

#include "kernels.hpp"
#include "slice_memory.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMomentum = 0;

std::vector<std::string> states(const SgdOptions& options) {
  return options.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
}

template <class T>
kernels::SgdStep<T> coefficients(const SgdOptions& o, double lr, double grad_scale) {
  return {.grad_scale = static_cast<T>(grad_scale),
          .keep = static_cast<T>(1 - lr * o.weight_decay),
          .momentum = static_cast<T>(o.momentum),
          .minus_lr = static_cast<T>(-lr)};
}

}  // namespace

Sgd::Sgd(const SgdOptions& options, std::vector<OptimizerSlice> slices)
    : Optimizer(std::move(slices), states(options)), options_(options) {}

void Sgd::update(double lr, double grad_scale) {
  const auto single = coefficients<float>(options_, lr, grad_scale);
  const auto full = coefficients<double>(options_, lr, grad_scale);
  for_each_part([&](std::size_t i, std::int64_t begin, std::int64_t end) {
    const OptimizerSlice& slice = slices()[i];
    const auto run = [&]<class T>(kernels::SgdStep<T> step, auto... weight) {
      if (!slice.decay) step.keep = 1;
      T* const buffer = options_.momentum == 0 ? nullptr : data_from<T>(state(i, kMomentum), begin);
      kernels::sgd(step,
                   end - begin,
                   data_from<T>(slice.grad, begin),
                   buffer,
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
