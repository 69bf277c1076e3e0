#include "llmtrain/model/transformer.hpp"

#include <deque>
#include <numeric>

#include <ATen/core/grad_mode.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"
#include "llmtrain/model/kv_cache.hpp"
#include "llmtrain/parallel/gradient_reducer.hpp"
#include "llmtrain/parallel/parameter_gather.hpp"
#include "llmtrain/placement/recompute.hpp"
#include "llmtrain/tensor/gradient_node.hpp"

#include "block.hpp"
#include "embedding.hpp"
#include "head.hpp"
#include "kept_block.hpp"

// Shapes: b sequences of s tokens, h width. Where sequences are cut over an sp group, s counts this rank's;
// where the sequence is sharded over tp, b s is this rank's part between segments.
namespace llmtrain {
namespace {

constexpr std::int64_t kLogitsBytes = 16 << 20;

// The same on every rank, whose parts of the vocabulary differ by a row.
std::int64_t default_chunk(const ModelSpec& model, DType compute, int ranks) {
  const auto row =
      ceil_div(model.vocab_size, ranks) * static_cast<std::int64_t>(bytes_of(accumulation_type(compute)));
  return std::max<std::int64_t>(64, kLogitsBytes / row);
}

// The final norm's forward, kept until its backward: the graph hangs between the two.
struct KeptNorm {
  at::Tensor input;   // [b s, h] leaf
  at::Tensor output;  // [b s, h]
};

// One micro-batch on its way.
struct KeptPass {
  at::Tensor tokens;  // [b, s]
  SequenceLayout layout;
  std::vector<KeptBlock> blocks{};
  KeptNorm final_norm{};
  at::Tensor d_normed{};  // [b s, h] gradient of the final norm's output
};

}  // namespace

struct Transformer::Impl {
  Impl(const ModelSpec& spec, FlatParameters& parameters, const TransformerOptions& options)
      : model(spec),
        compute(parameters.compute_type()),
        chunk(options.loss_chunk_tokens > 0 ? options.loss_chunk_tokens
                                            : default_chunk(spec, compute, parameters.place().size)),
        max_positions(options.max_positions),
        context{.region = TensorRegion(options.tensor_group, options.shard_sequence, options.plant),
                .sequence = SequenceGroup(options.sequence_group, options.sp_method),
                .runner = {}},
        weights(options.weights),
        gradients(options.gradients),
        memory(options.memory),
        embedding(embedding_weights(parameters)),
        head(head_weights(parameters, spec)) {
    LLMTRAIN_CHECK(context.region.size() == parameters.place().size,
                   "parameters cut for {} ranks in a group of {}",
                   parameters.place().size,
                   context.region.size());
    LLMTRAIN_CHECK(max_positions > 0, "a transformer for {} positions", max_positions);
    for (std::int64_t layer = 0; layer < spec.num_layers; ++layer)
      blocks.push_back(block_weights(parameters, spec, layer));
    if (spec.position == PositionKind::kRope)
      rope = rope_tables(spec, max_positions, accumulation_type(compute));
    else
      LLMTRAIN_CHECK(spec.max_position.value() >= max_positions,
                     "{} learned positions for sequences of {}",
                     spec.max_position.value(),
                     max_positions);
  }

  SegmentIndex head_segment() const { return static_cast<SegmentIndex>(blocks.size()) + 1; }
  void acquire(SegmentIndex segment, PassDirection direction) const {
    if (weights != nullptr) weights->acquire(segment, direction);
  }
  Recompute recompute_of_block(std::size_t i) const {
    return recompute_of(memory, static_cast<std::int64_t>(i));
  }
  void prepare_gradients(SegmentIndex segment) const {
    if (gradients != nullptr) gradients->prepare(segment);
  }

  // Of whole sequences, or of this rank's tokens of each.
  SequenceLayout layout_of(const at::Tensor& tokens) const {
    LLMTRAIN_CHECK(tokens.dim() == 2, "tokens must be [b, s]");
    return checked_layout(tokens, context.sequence.cut(tokens.size(1)).runs());
  }

  SequenceLayout layout_behind(const KvCache& cache, const at::Tensor& tokens) const {
    LLMTRAIN_CHECK(context.sequence.is_alone(), "a cache of sequences that are cut over ranks");
    LLMTRAIN_CHECK(tokens.dim() == 2, "tokens must be [b, s]");
    LLMTRAIN_CHECK(cache.length() + tokens.size(1) <= cache.capacity(),
                   "{} cached tokens and {} more in {} places",
                   cache.length(),
                   tokens.size(1),
                   cache.capacity());
    return checked_layout(tokens, {{.first = cache.length(), .count = tokens.size(1)}});
  }

  SequenceLayout checked_layout(const at::Tensor& tokens, std::vector<TokenRun> runs) const {
    LLMTRAIN_CHECK(tokens.scalar_type() == at::kLong, "tokens must be int64");
    const std::int64_t end = runs.back().first + runs.back().count;
    LLMTRAIN_CHECK(end <= max_positions, "positions to {} of {}", end, max_positions);
    LLMTRAIN_CHECK(tokens.numel() % context.region.row_parts() == 0,
                   "{} tokens over {} ranks",
                   tokens.numel(),
                   context.region.row_parts());
    return {.batch = tokens.size(0), .length = tokens.size(1), .runs = std::move(runs)};
  }

  // Final hidden state, normed, without a graph; the head stays acquired. [b s, h]
  at::Tensor hidden_without_graph(const at::Tensor& tokens, const SequenceLayout& layout, KvCache* cache) {
    acquire(0, PassDirection::kForward);
    at::Tensor x = embed(tokens, embedding, layout, context.region);  // [b s, h]
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      acquire(static_cast<SegmentIndex>(i) + 1, PassDirection::kForward);
      KvCache::Layer* const layer = cache ? &cache->layer(static_cast<int>(i)) : nullptr;
      x = block(x, blocks[i], layout, rope, context, Recompute::kNone, layer);
    }
    acquire(head_segment(), PassDirection::kForward);
    return norm(x, head.norm, context);  // [b s, h]
  }

  ModelSpec model;
  DType compute;
  std::int64_t chunk;
  std::int64_t max_positions;
  GradientContext context;
  ParameterGather* weights;
  GradientReducer* gradients;
  MemorySpec memory;
  EmbeddingWeights embedding;
  std::vector<BlockWeights> blocks;
  HeadWeights head;
  RopeTables rope;  // undefined for learned positions
  std::deque<KeptPass> kept;
};

Transformer::Transformer(const ModelSpec& model, FlatParameters& params, const TransformerOptions& options)
    : impl_(std::make_unique<Impl>(model, params, options)) {}
Transformer::~Transformer() = default;
Transformer::Transformer(Transformer&&) noexcept = default;

LossSums Transformer::forward(const MicroBatch& batch, double gradient_seed) {
  Impl& m = *impl_;
  const at::AutoGradMode graph(true);
  KeptPass pass{.tokens = batch.tokens, .layout = m.layout_of(batch.tokens)};
  m.acquire(0, PassDirection::kForward);
  at::Tensor x = embed(batch.tokens, m.embedding, pass.layout, m.context.region);  // [b s, h]
  for (std::size_t i = 0; i < m.blocks.size(); ++i) {
    m.acquire(static_cast<SegmentIndex>(i) + 1, PassDirection::kForward);
    pass.blocks.push_back(
        block_forward(x, m.blocks[i], pass.layout, m.rope, m.context, m.recompute_of_block(i)));
    x = pass.blocks.back().output;  // [b s, h]
  }
  m.acquire(m.head_segment(), PassDirection::kForward);
  pass.final_norm.input = leaf_of(x);                                            // [b s, h]
  pass.final_norm.output = norm(pass.final_norm.input, m.head.norm, m.context);  // [b s, h]
  m.prepare_gradients(m.head_segment());  // the loss writes that of the head matrix
  const HeadLoss loss = head_loss(pass.final_norm.output.detach(),
                                  batch.labels.contiguous().view({-1}),
                                  m.head,
                                  m.context.region,
                                  {.chunk_tokens = m.chunk, .with_gradient = true, .seed = gradient_seed});
  pass.d_normed = loss.d_hidden;  // [b s, h]
  m.kept.push_back(std::move(pass));
  return loss.sums;
}

void Transformer::backward(const SegmentCallback& on_gradient_ready) {
  Impl& m = *impl_;
  LLMTRAIN_CHECK(!m.kept.empty(), "backward without a forward");
  KeptPass pass = std::move(m.kept.front());
  m.kept.pop_front();
  const auto ready = [&](SegmentIndex segment) {
    if (on_gradient_ready) on_gradient_ready(segment);
  };
  m.acquire(m.head_segment(), PassDirection::kBackward);
  m.prepare_gradients(m.head_segment());
  at::Tensor grad =
      backward_through(pass.final_norm.output, pass.d_normed, pass.final_norm.input);  // [b s, h]
  pass.final_norm = {};
  pass.d_normed.reset();
  ready(m.head_segment());
  for (std::size_t i = m.blocks.size(); i-- > 0;) {
    const auto segment = static_cast<SegmentIndex>(i) + 1;
    m.acquire(segment, PassDirection::kBackward);
    m.prepare_gradients(segment);
    grad = block_backward(std::move(pass.blocks[i]),
                          grad,
                          m.blocks[i],
                          pass.layout,
                          m.rope,
                          m.context,
                          m.recompute_of_block(i));  // [b s, h]
    ready(segment);
  }
  m.prepare_gradients(0);
  embed_backward(pass.tokens, grad, m.embedding, pass.layout, m.context.region);
  ready(0);
}

void Transformer::discard_kept() {
  impl_->kept.clear();
}

LossSums Transformer::evaluate(const MicroBatch& batch) {
  const at::AutoGradMode no_graph(false);
  const SequenceLayout layout = impl_->layout_of(batch.tokens);
  const at::Tensor hidden = impl_->hidden_without_graph(batch.tokens, layout, nullptr);  // [b s, h]
  return head_loss(hidden,
                   batch.labels.contiguous().view({-1}),
                   impl_->head,
                   impl_->context.region,
                   {.chunk_tokens = impl_->chunk})
      .sums;
}

at::Tensor Transformer::logits(const at::Tensor& tokens) {
  const at::AutoGradMode no_graph(false);
  const SequenceLayout layout = impl_->layout_of(tokens);
  const at::Tensor hidden = impl_->hidden_without_graph(tokens, layout, nullptr);   // [b s, h]
  return head_logits(hidden, impl_->head).view({layout.batch, layout.length, -1});  // [b, s, vocab]
}

at::Tensor Transformer::logits(const at::Tensor& tokens, KvCache& cache) {
  const at::AutoGradMode no_graph(false);
  const SequenceLayout layout = impl_->layout_behind(cache, tokens);
  const at::Tensor hidden = impl_->hidden_without_graph(tokens, layout, &cache);  // [b n, h]
  cache.advance(tokens.size(1));
  return head_logits(hidden, impl_->head).view({layout.batch, layout.length, -1});  // [b, n, vocab]
}

KvCache Transformer::make_cache(std::int64_t batch, std::int64_t capacity) const {
  std::vector<KvCache::Layer> layers;
  for (const BlockWeights& weights : impl_->blocks) {
    const std::vector<std::int64_t> shape = {batch, weights.kv_heads, capacity, weights.head_dim};
    layers.push_back(
        {.keys = zeros_host(shape, impl_->compute), .values = zeros_host(shape, impl_->compute)});
  }
  return KvCache(std::move(layers), capacity);
}

void Transformer::set_weight_gradient_runner(WeightGradientRunner runner) {
  impl_->context.runner = std::move(runner);
}

int Transformer::num_segments() const {
  return static_cast<int>(impl_->blocks.size()) + 2;
}

}  // namespace llmtrain
