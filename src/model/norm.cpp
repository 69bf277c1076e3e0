#include "norm.hpp"

#include "llmtrain/tensor/gradient_node.hpp"

#include "rows.hpp"

// Shapes: t tokens, h width.
namespace llmtrain {
namespace {

struct Statistics {
  at::Tensor mean{};  // [t], layer norm only
  at::Tensor rstd;    // [t]
};

Statistics normalise(const at::Tensor& x, const NormWeights& w, at::Tensor& y) {
  const std::int64_t rows = x.size(0);
  const std::int64_t cols = x.size(1);
  const DType acc = accumulation_type(dtype_of(x.scalar_type()));
  Statistics stats{.rstd = empty_host({rows}, acc)};
  if (w.kind == NormKind::kLayerNorm) stats.mean = empty_host({rows}, acc);
  dispatch_rows(x, [&]<class T>(T) {
    const auto& kernels = row_kernels<T>();
    const T* in = pointer<T>(x);
    T* out = pointer<T>(y);
    auto* rstd = pointer<Acc<T>>(stats.rstd);
    for_rows(rows, cols, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * cols;
      if (w.kind == NormKind::kRmsNorm)
        kernels.rms_norm(
            in + at, pointer<T>(w.weight.weight), out + at, rstd + begin, end - begin, cols, cols, w.eps);
      else
        kernels.layer_norm(in + at,
                           pointer<T>(w.weight.weight),
                           pointer<T>(w.bias.weight),
                           out + at,
                           pointer<Acc<T>>(stats.mean) + begin,
                           rstd + begin,
                           end - begin,
                           cols,
                           w.eps);
    });
  });
  return stats;
}

at::Tensor norm_backward(const at::Tensor& dy,
                         const at::Tensor& x,
                         const Statistics& stats,
                         const NormWeights& w,
                         const GradientContext& context) {
  const std::int64_t rows = x.size(0);
  const std::int64_t cols = x.size(1);
  at::Tensor dx = empty_host({rows, cols}, dtype_of(x.scalar_type()));  // [t, h]
  dispatch_rows(x, [&]<class T>(T) {
    const auto& kernels = row_kernels<T>();
    ThreadSums<Acc<T>> dw(cols);
    ThreadSums<Acc<T>> db(w.kind == NormKind::kLayerNorm ? cols : 0);
    for_rows(rows, cols, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * cols;
      const auto* rstd = pointer<Acc<T>>(stats.rstd) + begin;
      if (w.kind == NormKind::kRmsNorm)
        kernels.rms_norm_backward(pointer<T>(dy) + at,
                                  cols,
                                  pointer<T>(x) + at,
                                  cols,
                                  pointer<T>(w.weight.weight),
                                  rstd,
                                  pointer<T>(dx) + at,
                                  cols,
                                  dw.mine(),
                                  end - begin,
                                  cols,
                                  false);
      else
        kernels.layer_norm_backward(pointer<T>(dy) + at,
                                    pointer<T>(x) + at,
                                    pointer<T>(w.weight.weight),
                                    pointer<Acc<T>>(stats.mean) + begin,
                                    rstd,
                                    pointer<T>(dx) + at,
                                    dw.mine(),
                                    db.mine(),
                                    end - begin,
                                    cols,
                                    false);
    });
    context.run([dw = std::move(dw), db = std::move(db), &w] {
      dw.add_to(pointer<Acc<T>>(w.weight.grad));
      if (w.kind == NormKind::kLayerNorm) db.add_to(pointer<Acc<T>>(w.bias.grad));
    });
  });
  return dx;
}

}  // namespace

NormWeights norm_weights(const FlatParameters& params, const ModelSpec& model, const std::string& name) {
  return {.kind = model.norm,
          .eps = model.norm_eps,
          .weight = params.view(name + ".weight"),
          .bias = params.view(name + ".bias")};
}

at::Tensor norm(const at::Tensor& x, const NormWeights& w, const GradientContext& context) {
  expect_shape(x, {kAnyExtent, w.weight.weight.size(0)}, "input of a norm");
  const at::Tensor input = x.detach().contiguous();                         // [t, h]
  at::Tensor y = empty_host(input.sizes(), dtype_of(input.scalar_type()));  // [t, h]
  const Statistics stats = normalise(input, w, y);
  if (wants_gradient({x})) {
    attach_backward(y, {x}, "Norm", [input, stats, &w, &context](const at::Tensor& dy) {
      return std::vector<at::Tensor>{norm_backward(dy.contiguous(), input, stats, w, context)};
    });
  }
  return y;
}

}  // namespace llmtrain
