#include "mlp.hpp"

#include "llmtrain/core/division.hpp"
#include "llmtrain/tensor/gradient_node.hpp"

#include "rows.hpp"

// Shapes: t tokens, h width, f feed-forward width, u = 2f when gated, else f.
namespace llmtrain {
namespace {

bool is_gated(MlpKind kind) {
  return kind == MlpKind::kSwiglu || kind == MlpKind::kGeglu;
}

Activation activation_of(MlpKind kind) {
  switch (kind) {
    case MlpKind::kSwiglu: return Activation::kSilu;
    case MlpKind::kGeglu:
    case MlpKind::kGeluTanh: return Activation::kGeluTanh;
    case MlpKind::kGelu: return Activation::kGelu;
  }
  return Activation::kSilu;
}

void activate(const at::Tensor& up, MlpKind kind, at::Tensor& y) {
  const std::int64_t f = y.size(1);
  dispatch_rows(up, [&]<class T>(T) {
    const auto& kernels = row_kernels<T>();
    for_rows(y.size(0), f, [&](std::int64_t begin, std::int64_t end) {
      T* out = pointer<T>(y) + begin * f;
      const T* in = pointer<T>(up) + begin * up.size(1);
      if (is_gated(kind))
        kernels.gated(activation_of(kind), in, out, end - begin, f);
      else
        kernels.plain(activation_of(kind), in, out, (end - begin) * f);
    });
  });
}

// Overwrites `up`, which nobody needs after this.
void activate_backward(const at::Tensor& dy, MlpKind kind, at::Tensor& up) {
  const std::int64_t f = dy.size(1);
  dispatch_rows(up, [&]<class T>(T) {
    const auto& kernels = row_kernels<T>();
    for_rows(dy.size(0), f, [&](std::int64_t begin, std::int64_t end) {
      const T* grad = pointer<T>(dy) + begin * f;
      T* in = pointer<T>(up) + begin * up.size(1);
      if (is_gated(kind))
        kernels.gated_backward(activation_of(kind), grad, in, in, end - begin, f);
      else
        kernels.plain_backward(activation_of(kind), grad, in, in, (end - begin) * f);
    });
  });
}

at::Tensor activation(const at::Tensor& x, MlpKind kind) {
  const at::Tensor up = x.detach();  // [t, u]
  const std::int64_t f = is_gated(kind) ? exact_div(up.size(1), 2) : up.size(1);
  at::Tensor y = empty_host({up.size(0), f}, dtype_of(up.scalar_type()));  // [t, f]
  activate(up, kind, y);
  if (wants_gradient({x})) {
    attach_backward(y, {x}, "Activation", [up, kind](const at::Tensor& dy) {
      at::Tensor d_up = up;  // [t, u]
      activate_backward(dy.contiguous(), kind, d_up);
      return std::vector<at::Tensor>{d_up};
    });
  }
  return y;
}

}  // namespace

MlpWeights mlp_weights(const FlatParameters& params, const ModelSpec& model, const std::string& prefix) {
  std::vector<std::string> up = {prefix + "up_proj"};
  if (is_gated(model.mlp)) up.insert(up.begin(), prefix + "gate_proj");
  return {.kind = model.mlp,
          .up = linear_weights(params, up),
          .down = linear_weights(params, {prefix + "down_proj"})};
}

at::Tensor mlp(const LinearInput& x,
               const MlpWeights& w,
               const GradientContext& context,
               const at::Tensor& residual,
               const MlpPass& pass) {
  const at::Tensor up = column_linear(x, w.up, context);  // [t, u]
  const auto activate = [kind = w.kind](const at::Tensor& rows) { return activation(rows, kind); };
  const LinearInput active = linear_input(up, activate, pass.keeps_activation);  // [t, f]
  return row_linear(active, w.down, context, residual, pass.wants_values);       // [t, h]
}

}  // namespace llmtrain
