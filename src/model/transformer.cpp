#include "llmtrain/model/transformer.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/model/kv_cache.hpp"

namespace llmtrain {

Transformer::Transformer(const ModelSpec& model, FlatParameters& params, const TransformerOptions& options)
    : chunk_(model, params, {0, static_cast<SegmentIndex>(model.num_layers) + 2}, options) {}

LossSums Transformer::forward(const MicroBatch& batch, double gradient_seed) {
  return chunk_.forward(begun_++, batch, {}, gradient_seed).loss;
}

void Transformer::backward(const SegmentCallback& on_gradient_ready) {
  LLMTRAIN_CHECK(ended_ < begun_, "backward without a forward");
  chunk_.backward(ended_++, {}, on_gradient_ready);
}

LossSums Transformer::evaluate(const MicroBatch& batch) {
  return chunk_.evaluate(batch, {}).loss;
}

at::Tensor Transformer::logits(const at::Tensor& tokens) {
  return chunk_.logits(tokens);  // [b, s, vocab]
}

at::Tensor Transformer::logits(const at::Tensor& tokens, KvCache& cache) {
  return chunk_.logits(tokens, &cache);  // [b, n, vocab]
}

KvCache Transformer::make_cache(std::int64_t batch, std::int64_t capacity) const {
  return chunk_.make_cache(batch, capacity);
}

}  // namespace llmtrain
