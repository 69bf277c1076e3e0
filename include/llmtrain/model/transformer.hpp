#pragma once

#include "llmtrain/model/model_chunk.hpp"

// The whole decoder-only transformer that a ModelSpec describes, in one piece on this rank: what inference
// and a job without a pipeline compute with.
namespace llmtrain {

class Transformer {
 public:
  // As ModelChunk.
  Transformer(const ModelSpec& model, FlatParameters& params, const TransformerOptions& options);

  // One micro-batch, kept for backward.
  LossSums forward(const MicroBatch& batch, double gradient_seed);
  // The oldest micro-batch that is still kept; from the head down to the embedding.
  void backward(const SegmentCallback& on_gradient_ready = {});

  // Without gradients.
  LossSums evaluate(const MicroBatch& batch);
  at::Tensor logits(const at::Tensor& tokens);                  // [b, s] -> [b, s, vocab] fp32 or fp64
  at::Tensor logits(const at::Tensor& tokens, KvCache& cache);  // [b, n] -> [b, n, vocab]
  KvCache make_cache(std::int64_t batch, std::int64_t capacity) const;

  // The same model as a chunk.
  ModelChunk& chunk() { return chunk_; }

 private:
  ModelChunk chunk_;
  int begun_ = 0;  // micro-batches
  int ended_ = 0;
};

}  // namespace llmtrain
