#include "linear.hpp"

#include <ATen/ops/sum.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/tensor/gemm.hpp"
#include "llmtrain/tensor/gradient_node.hpp"

// Shapes: t tokens of the micro-batch, in and out widths of the layer.
namespace llmtrain {
namespace {

std::vector<std::string> with_suffix(const std::vector<std::string>& names, const char* suffix) {
  std::vector<std::string> result;
  for (const std::string& name : names) result.push_back(name + suffix);
  return result;
}

std::vector<WeightView> fused_or_apart(const FlatParameters& params, const std::vector<std::string>& names) {
  if (WeightView fused = params.fused_view(names); fused.defined()) return {fused};
  std::vector<WeightView> parts;
  for (const std::string& name : names)
    if (WeightView part = params.view(name); part.defined()) parts.push_back(part);
  return parts;
}

// y (already holding the residual, when there is one) += bias, column part by column part.
void add_bias(at::Tensor& y, const LinearWeights& w, bool overwrite) {
  std::int64_t column = 0;
  for (const WeightView& bias : w.biases) {
    const std::int64_t width = bias.weight.size(0);
    at::Tensor part = y.narrow(1, column, width);  // [t, out_i]
    if (overwrite)
      part.copy_(bias.weight);
    else
      part.add_(bias.weight);
    column += width;
  }
}

// y = beta y + x W^T, column part by column part.
void multiply(const at::Tensor& x, const LinearWeights& w, at::Tensor& y, double beta) {
  std::int64_t column = 0;
  for (const WeightView& part : w.weights) {
    const std::int64_t width = part.weight.size(0);
    at::Tensor columns = y.narrow(1, column, width);  // [t, out_i]
    gemm(x, part.weight.t(), columns, {.beta = beta});
    column += width;
  }
}

at::Tensor row_sum(const at::Tensor& input,
                   const LinearWeights& w,
                   const TensorRegion& region,
                   const at::Tensor& residual) {
  expect_shape(input, {kAnyExtent, w.in}, "input of a linear layer");
  at::Tensor y = residual.detach().clone();  // [t, out]
  const bool biased_by_all = region.plant() == Plant::kRowBias;
  if (!w.biases.empty() && !biased_by_all) add_bias(y, w, false);
  if (region.is_alone()) {
    multiply(input, w, y, 1.0);
    return y;
  }
  at::Tensor partial = empty_host({input.size(0), w.out}, dtype_of(input.scalar_type()));  // [t, out]
  multiply(input, w, partial, 0.0);
  if (biased_by_all) add_bias(partial, w, false);
  return y.add_(region.summed(partial));
}

}  // namespace

LinearWeights linear_weights(const FlatParameters& params, const std::vector<std::string>& names) {
  LinearWeights w{.weights = fused_or_apart(params, with_suffix(names, ".weight")),
                  .biases = fused_or_apart(params, with_suffix(names, ".bias"))};
  LLMTRAIN_CHECK(!w.weights.empty(), "no weight called {}.weight", names.front());
  w.in = w.weights.front().weight.size(1);
  for (const WeightView& part : w.weights) w.out += part.weight.size(0);
  return w;
}

at::Tensor column_linear(const LinearInput& x, const LinearWeights& w, const GradientContext& context) {
  const at::Tensor rows = x.values();  // [t, in]
  expect_shape(rows, {kAnyExtent, w.in}, "input of a linear layer");
  const at::Tensor input = context.region.whole(rows);                              // [t, in]
  at::Tensor y = empty_host({input.size(0), w.out}, dtype_of(rows.scalar_type()));  // [t, out]
  if (!w.biases.empty()) add_bias(y, w, true);
  multiply(input, w, y, w.biases.empty() ? 0.0 : 1.0);
  if (wants_gradient({x.source()})) {
    attach_backward(
        y, {x.source()}, "ColumnLinear", [kept = x.detached(), &w, &context](const at::Tensor& dy) {
          RestoredInput restored = kept.restored();                          // [t, in]
          const at::Tensor grad = dy.contiguous();                           // [t, out]
          const at::Tensor again = context.region.whole(restored.values());  // [t, in]
          context.run([grad, again, &w] { add_linear_weight_gradient(grad, again, w); });
          const at::Tensor d_rows = context.region.summed(linear_input_gradient(grad, w));  // [t, in]
          return std::vector<at::Tensor>{std::move(restored).source_gradient(d_rows)};
        });
  }
  return y;
}

at::Tensor row_linear(const LinearInput& x,
                      const LinearWeights& w,
                      const GradientContext& context,
                      const at::Tensor& residual,
                      bool wants_values) {
  at::Tensor y = wants_values ? row_sum(x.values(), w, context.region, residual)
                              : empty_host(residual.sizes(), dtype_of(residual.scalar_type()));  // [t, out]
  if (wants_gradient({x.source(), residual})) {
    attach_backward(
        y, {x.source(), residual}, "RowLinear", [kept = x.detached(), &w, &context](const at::Tensor& dy) {
          RestoredInput restored = kept.restored();            // [t, in]
          const at::Tensor rows = dy.contiguous();             // [t, out]
          const at::Tensor grad = context.region.whole(rows);  // [t, out]
          context.run(
              [grad, values = restored.values(), &w] { add_linear_weight_gradient(grad, values, w); });
          std::vector<at::Tensor> gradients(2);
          gradients[0] = std::move(restored).source_gradient(linear_input_gradient(grad, w));
          gradients[1] = rows;
          return gradients;
        });
  }
  return y;
}

at::Tensor linear_input_gradient(const at::Tensor& dy, const LinearWeights& w) {
  at::Tensor dx = empty_host({dy.size(0), w.in}, dtype_of(dy.scalar_type()));  // [t, in]
  std::int64_t column = 0;
  for (const WeightView& part : w.weights) {
    const std::int64_t width = part.weight.size(0);
    gemm(dy.narrow(1, column, width), part.weight, dx, {.beta = column == 0 ? 0.0 : 1.0});
    column += width;
  }
  return dx;
}

void add_linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const LinearWeights& w) {
  std::int64_t column = 0;
  for (const WeightView& part : w.weights) {
    const std::int64_t width = part.weight.size(0);
    at::Tensor main = part.grad;  // [out_i, in] main type
    gemm(dy.narrow(1, column, width).t(), x, main, {.beta = 1.0});
    column += width;
  }
  column = 0;
  for (const WeightView& bias : w.biases) {
    const std::int64_t width = bias.weight.size(0);
    bias.grad.add_(at::sum(dy.narrow(1, column, width), 0, false, bias.grad.scalar_type()));  // [out_i]
    column += width;
  }
}

}  // namespace llmtrain
