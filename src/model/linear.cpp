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
  return y.add_(region.summed_of({input.size(0), w.out},
                                 dtype_of(input.scalar_type()),
                                 [&](at::Tensor& partial, const RowChunk& chunk) {  // [c, out]
                                   multiply(chunk.of(input), w, partial, 0.0);
                                   if (biased_by_all) add_bias(partial, w, false);
                                 }));
}

// rows [t / parts, in] -> [t, out]
at::Tensor column_product(const at::Tensor& rows, const LinearWeights& w, const TensorRegion& region) {
  expect_shape(rows, {kAnyExtent, w.in}, "input of a linear layer");
  at::Tensor y =
      empty_host({rows.size(0) * region.row_parts(), w.out}, dtype_of(rows.scalar_type()));  // [t, out]
  region.with_whole(rows, [&](const at::Tensor& input, const RowChunk& chunk) {
    at::Tensor part = chunk.room_in(y);  // [c, out]
    if (!w.biases.empty()) add_bias(part, w, true);
    multiply(input, w, part, w.biases.empty() ? 0.0 : 1.0);
    chunk.store(part, y);
  });
  return y;
}

// dx = dy W, column part by column part of dy.
void multiply_back(const at::Tensor& dy, const LinearWeights& w, at::Tensor& dx) {
  std::int64_t column = 0;
  for (const WeightView& part : w.weights) {
    const std::int64_t width = part.weight.size(0);
    gemm(dy.narrow(1, column, width), part.weight, dx, {.beta = column == 0 ? 0.0 : 1.0});
    column += width;
  }
}

// What backward has of a gradient that ranks keep parts of.
struct RowGradients {
  at::Tensor whole;  // [t, out]
  at::Tensor input;  // [t, in]
};

// rows [t / parts, out]
RowGradients row_input_gradient(const at::Tensor& rows, const LinearWeights& w, const TensorRegion& region) {
  const std::int64_t tokens = rows.size(0) * region.row_parts();
  const DType type = dtype_of(rows.scalar_type());
  RowGradients result{.whole = {}, .input = empty_host({tokens, w.in}, type)};
  region.with_whole(rows, [&](const at::Tensor& dy, const RowChunk& chunk) {
    at::Tensor dx = chunk.room_in(result.input);  // [c, in]
    multiply_back(dy, w, dx);
    chunk.store(dx, result.input);
    if (dy.size(0) == tokens) {
      result.whole = dy;
      return;
    }
    if (!result.whole.defined()) result.whole = empty_host({tokens, rows.size(1)}, type);
    chunk.store(dy, result.whole);
  });
  return result;
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
  at::Tensor y = column_product(x.values(), w, context.region);  // [t, out]
  if (wants_gradient({x.source()})) {
    attach_backward(
        y, {x.source()}, "ColumnLinear", [kept = x.detached(), &w, &context](const at::Tensor& dy) {
          // The input comes again behind its gradient's product, and the gradient's sum goes behind the
          // weight's.
          RestoredInput restored = kept.restored();                           // [t / parts, in]
          PendingRows again = context.region.begin_whole(restored.values());  // [t, in]
          const at::Tensor grad = dy.contiguous();                            // [t, out]
          PendingRows d_rows =
              context.region.begin_summed(linear_input_gradient(grad, w));  // [t / parts, in]
          context.run(
              [grad, input = std::move(again).wait(), &w] { add_linear_weight_gradient(grad, input, w); });
          return std::vector<at::Tensor>{std::move(restored).source_gradient(std::move(d_rows).wait())};
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
          RestoredInput restored = kept.restored();  // [t, in]
          const at::Tensor rows = dy.contiguous();   // [t / parts, out]
          const RowGradients made = row_input_gradient(rows, w, context.region);
          context.run([grad = made.whole, values = restored.values(), &w] {
            add_linear_weight_gradient(grad, values, w);
          });
          std::vector<at::Tensor> gradients(2);
          gradients[0] = std::move(restored).source_gradient(made.input);
          gradients[1] = rows;
          return gradients;
        });
  }
  return y;
}

at::Tensor linear_input_gradient(const at::Tensor& dy, const LinearWeights& w) {
  at::Tensor dx = empty_host({dy.size(0), w.in}, dtype_of(dy.scalar_type()));  // [t, in]
  multiply_back(dy, w, dx);
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
