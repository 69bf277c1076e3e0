#include "head.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/tensor/gemm.hpp"

#include "cross_entropy.hpp"

// Shapes: t tokens of the micro-batch, c of a chunk, h width, vocab rows of the head matrix on this rank.
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

}  // namespace

HeadWeights head_weights(const FlatParameters& params, const ModelSpec& model) {
  return {.norm = norm_weights(params, model, "model.norm"),
          .matrix = params.view("lm_head.weight"),
          .vocabulary = vocabulary_part(params, "lm_head.weight")};
}

HeadLoss head_loss(const at::Tensor& normed,
                   const at::Tensor& labels,
                   const HeadWeights& w,
                   const TensorRegion& region,
                   const LossOptions& options) {
  const at::Tensor hidden = region.whole(normed);  // [t, h]
  const std::int64_t tokens = hidden.size(0);
  const std::int64_t vocab = w.vocabulary.count;
  const DType type = dtype_of(hidden.scalar_type());
  expect_shape(labels, {tokens}, "labels");
  HeadLoss result{.sums = {.tokens = count_labels(labels, w.vocabulary.total)}};
  at::Tensor d_hidden;  // [t, h]
  if (options.with_gradient) d_hidden = empty_host(hidden.sizes(), type);

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
    result.sums.loss += cross_entropy(
        logits, labels.data_ptr<std::int64_t>() + first, w.vocabulary, region, grad, options.seed);
    if (!grad.defined()) continue;
    at::Tensor d_input = d_hidden.narrow(0, first, rows);  // [c, h]
    gemm(grad, w.matrix.weight, d_input);
    gemm(grad.t(), input, matrix_grad, {.beta = 1.0});
  }
  if (options.with_gradient) result.d_hidden = region.summed(d_hidden);
  return result;
}

at::Tensor head_logits(const at::Tensor& hidden, const HeadWeights& w) {
  LLMTRAIN_CHECK(w.vocabulary.is_whole(), "logits are asked for where the vocabulary is cut over ranks");
  at::Tensor logits = empty_host({hidden.size(0), w.matrix.weight.size(0)},
                                 accumulation_type(dtype_of(hidden.scalar_type())));  // [t, vocab]
  gemm(hidden, w.matrix.weight.t(), logits);
  return logits;
}

}  // namespace llmtrain
