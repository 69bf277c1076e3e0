#include "head.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/tensor/gemm.hpp"

#include "rows.hpp"

// Shapes: t tokens of the micro-batch, c of a chunk, h width, vocab rows of the head matrix.
namespace llmtrain {
namespace {

std::int64_t count_labels(const at::Tensor& labels, std::int64_t vocab) {
  const std::int64_t* ids = labels.data_ptr<std::int64_t>();
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    LLMTRAIN_CHECK(ids[i] == kIgnoredLabel || (ids[i] >= 0 && ids[i] < vocab),
                   "label {} at index {} is neither {} nor inside the vocabulary of {}",
                   ids[i],
                   i,
                   kIgnoredLabel,
                   vocab);
    count += ids[i] >= 0;
  }
  return count;
}

// Loss of one chunk; with a defined `grad` also seed x (softmax - onehot).
double chunk_loss(const at::Tensor& logits, const std::int64_t* labels, const at::Tensor& grad, double seed) {
  const std::int64_t vocab = logits.size(1);
  std::vector<double> losses(static_cast<std::size_t>(logits.size(0)), 0.0);
  const auto run = [&]<class T>(T) {
    for_rows(logits.size(0), vocab, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        row_kernels<T>().cross_entropy(pointer<Acc<T>>(logits) + row * vocab,
                                       labels + row,
                                       grad.defined() ? pointer<T>(grad) + row * vocab : nullptr,
                                       1,
                                       vocab,
                                       static_cast<Acc<T>>(seed),
                                       &losses[static_cast<std::size_t>(row)]);
    });
  };
  dispatch_rows(grad.defined() ? grad : logits, run);
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  return sum;
}

}  // namespace

HeadWeights head_weights(const FlatParameters& params, const ModelSpec& model) {
  return {.norm = norm_weights(params, model, "model.norm"), .matrix = params.view("lm_head.weight")};
}

HeadLoss head_loss(const at::Tensor& hidden,
                   const at::Tensor& labels,
                   const HeadWeights& w,
                   const LossOptions& options) {
  const std::int64_t tokens = hidden.size(0);
  const std::int64_t vocab = w.matrix.weight.size(0);
  const DType type = dtype_of(hidden.scalar_type());
  expect_shape(labels, {tokens}, "labels");
  HeadLoss result{.sums = {.tokens = count_labels(labels, vocab)}};
  if (options.with_gradient) result.d_hidden = empty_host(hidden.sizes(), type);  // [t, h]

  const std::int64_t chunk = std::min(options.chunk_tokens, tokens);
  at::Tensor logits_buffer = empty_host({chunk, vocab}, accumulation_type(type));  // [c, vocab]
  // The gradient replaces the logits when both have the same type.
  at::Tensor grad_buffer;  // [c, vocab]
  if (options.with_gradient)
    grad_buffer = accumulation_type(type) == type ? logits_buffer : empty_host({chunk, vocab}, type);
  at::Tensor matrix_grad = w.matrix.grad;  // [vocab, h] main type
  for (std::int64_t first = 0; first < tokens; first += chunk) {
    const std::int64_t rows = std::min(chunk, tokens - first);
    const at::Tensor input = hidden.narrow(0, first, rows);  // [c, h]
    at::Tensor logits = logits_buffer.narrow(0, 0, rows);    // [c, vocab]
    gemm(input, w.matrix.weight.t(), logits);
    const at::Tensor grad = grad_buffer.defined() ? grad_buffer.narrow(0, 0, rows) : at::Tensor();
    result.sums.loss += chunk_loss(logits, labels.data_ptr<std::int64_t>() + first, grad, options.seed);
    if (!grad.defined()) continue;
    at::Tensor d_input = result.d_hidden.narrow(0, first, rows);  // [c, h]
    gemm(grad, w.matrix.weight, d_input);
    gemm(grad.t(), input, matrix_grad, {.beta = 1.0});
  }
  return result;
}

at::Tensor head_logits(const at::Tensor& hidden, const HeadWeights& w) {
  at::Tensor logits = empty_host({hidden.size(0), w.matrix.weight.size(0)},
                                 accumulation_type(dtype_of(hidden.scalar_type())));  // [t, vocab]
  gemm(hidden, w.matrix.weight.t(), logits);
  return logits;
}

}  // namespace llmtrain
