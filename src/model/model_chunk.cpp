#include "llmtrain/model/model_chunk.hpp"

#include <map>

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

using WeightGradients = std::vector<std::function<void()>>;

// One micro-batch on its way.
struct KeptPass {
  at::Tensor tokens;  // [b, s]; where the embedding is
  SequenceLayout layout;
  std::map<SegmentIndex, KeptBlock> blocks{};
  KeptNorm final_norm{};
  at::Tensor d_normed{};  // [b s, h] gradient of the final norm's output
  std::map<SegmentIndex, WeightGradients> deferred{};
};

}  // namespace

struct ModelChunk::Impl {
  Impl(const ModelSpec& spec,
       FlatParameters& parameters,
       SegmentRange segments,
       const TransformerOptions& options)
      : model(spec),
        range(segments),
        compute(parameters.compute_type()),
        chunk(options.loss_chunk_tokens > 0 ? options.loss_chunk_tokens
                                            : default_chunk(spec, compute, parameters.place().size)),
        max_positions(options.max_positions),
        context{.region = TensorRegion({.group = options.tensor_group,
                                        .shard_sequence = options.shard_sequence,
                                        .chunks = options.overlap_chunks,
                                        .plant = options.plant}),
                .sequence = SequenceGroup(options.sequence_group, options.sp_method, options.plant),
                .runner = {}},
        weights(options.weights),
        gradients(options.gradients),
        memory(options.memory) {
    LLMTRAIN_CHECK(range.first >= 0 && range.first < range.end && range.end <= head_segment() + 1,
                   "segments {} to {} of {}",
                   range.first,
                   range.end,
                   head_segment() + 1);
    LLMTRAIN_CHECK(context.region.size() == parameters.place().size,
                   "parameters cut for {} ranks in a group of {}",
                   parameters.place().size,
                   context.region.size());
    LLMTRAIN_CHECK(max_positions > 0, "a transformer for {} positions", max_positions);
    if (has_embedding()) embedding = embedding_weights(parameters);
    for (SegmentIndex s = range.first; s < range.end; ++s)
      if (is_block(s)) blocks.emplace(s, block_weights(parameters, spec, s - 1));
    if (has_head()) {
      head = head_weights(parameters, spec);
      const auto lender = parameters.segment(head_segment()).borrows;
      if (lender && parameters.segment(*lender).is_copy()) copied = lender;
    }
    if (spec.position == PositionKind::kRope)
      rope = options.rope.defined() ? options.rope : position_tables(spec, max_positions, compute);
    else
      LLMTRAIN_CHECK(spec.max_position.value() >= max_positions,
                     "{} learned positions for sequences of {}",
                     spec.max_position.value(),
                     max_positions);
  }

  SegmentIndex head_segment() const { return static_cast<SegmentIndex>(model.num_layers) + 1; }
  bool has_embedding() const { return range.first == 0; }
  bool has_head() const { return range.end == head_segment() + 1; }
  // The first blocks of a chunk, where not all are computed again.
  Recompute recompute_of_block(SegmentIndex segment) const {
    return recompute_of(memory, segment - blocks.begin()->first);
  }
  bool is_block(SegmentIndex segment) const { return segment > 0 && segment < head_segment(); }

  void acquire(SegmentIndex segment, PassDirection direction) const {
    if (weights != nullptr) weights->acquire(segment, direction);
  }
  void prepare_gradients(SegmentIndex segment) const {
    if (gradients != nullptr) gradients->prepare(segment);
  }
  // What the head writes to outside its own segment is complete with it, unless the embedding is here too.
  void report(SegmentIndex segment, const SegmentCallback& ready) const {
    if (!ready) return;
    ready(segment);
    if (segment == head_segment() && copied) ready(*copied);
  }

  // Of whole sequences, or of this rank's tokens of each.
  SequenceLayout layout_of(const at::Tensor& tokens, const Documents& documents = {}) const {
    LLMTRAIN_CHECK(tokens.dim() == 2, "tokens must be [b, s]");
    LLMTRAIN_CHECK(!documents.mask() || std::ssize(documents.begins) == tokens.size(0),
                   "documents of {} sequences for {}",
                   documents.begins.size(),
                   tokens.size(0));
    SequenceLayout layout = checked_layout(tokens, context.sequence.cut(tokens.size(1)).runs());
    layout.documents = documents;
    return layout;
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

  // What the first segment of this chunk reads. [b s, h]
  at::Tensor enter(const at::Tensor& tokens, const SequenceLayout& layout, const at::Tensor& input) const {
    if (!has_embedding()) {
      expect_shape(input,
                   {layout.batch * layout.length / context.region.row_parts(), model.hidden_size},
                   "input of a chunk");
      return input;
    }
    acquire(0, PassDirection::kForward);
    return embed(tokens, embedding, layout, context.region);  // [b s, h]
  }

  HeadLoss loss_of(const at::Tensor& normed, const at::Tensor& labels, const LossOptions& options) const {
    return head_loss(normed, labels.contiguous().view({-1}), head, context.region, options);
  }

  // Without a graph; behind the final norm where the head is, which stays acquired. [b s, h]
  at::Tensor hidden_without_graph(const at::Tensor& tokens,
                                  const SequenceLayout& layout,
                                  const at::Tensor& input,
                                  KvCache* cache) {
    at::Tensor x = enter(tokens, layout, input);  // [b s, h]
    for (const auto& [segment, block_weights] : blocks) {
      acquire(segment, PassDirection::kForward);
      KvCache::Layer* const layer = cache ? &cache->layer(segment - 1) : nullptr;
      x = block(x, block_weights, layout, rope, context, {.cache = layer});  // [b s, h]
    }
    if (!has_head()) return x;
    acquire(head_segment(), PassDirection::kForward);
    return norm(x, head.norm, context);  // [b s, h]
  }

  KeptPass& kept_pass(int micro_batch) {
    const auto found = kept.find(micro_batch);
    LLMTRAIN_CHECK(found != kept.end(), "backward of micro-batch {} without a forward", micro_batch);
    return found->second;
  }

  // From the gradient of a segment's output to that of its input, [b s, h]; undefined for the embedding.
  at::Tensor back(KeptPass& pass, SegmentIndex segment, const at::Tensor& grad) {
    if (segment == 0) {
      context.run([this, tokens = pass.tokens, layout = pass.layout, grad] {
        embed_backward(tokens, grad, embedding, layout, context.region);
      });
      return {};
    }
    if (segment == head_segment()) {
      const KeptNorm own = std::exchange(pass.final_norm, {});
      return backward_through(own.output, std::exchange(pass.d_normed, {}), own.input);
    }
    return block_backward(std::move(pass.blocks.at(segment)),
                          grad,
                          blocks.at(segment),
                          pass.layout,
                          rope,
                          context,
                          recompute_of_block(segment));
  }

  ModelSpec model;
  SegmentRange range;
  DType compute;
  std::int64_t chunk;
  std::int64_t max_positions;
  GradientContext context;
  ParameterGather* weights;
  GradientReducer* gradients;
  MemorySpec memory;
  EmbeddingWeights embedding;
  std::map<SegmentIndex, BlockWeights> blocks;
  HeadWeights head;
  std::optional<SegmentIndex> copied;  // segment of which this rank holds a copy for the head
  RopeTables rope;                     // undefined for learned positions
  std::map<int, KeptPass> kept;        // by micro-batch
};

ModelChunk::ModelChunk(const ModelSpec& model,
                       FlatParameters& params,
                       SegmentRange segments,
                       const TransformerOptions& options)
    : impl_(std::make_unique<Impl>(model, params, segments, options)) {}
ModelChunk::~ModelChunk() = default;
ModelChunk::ModelChunk(ModelChunk&&) noexcept = default;

bool ModelChunk::has_embedding() const {
  return impl_->has_embedding();
}

bool ModelChunk::has_head() const {
  return impl_->has_head();
}

ChunkOutput ModelChunk::forward(int micro_batch,
                                const MicroBatch& batch,
                                const at::Tensor& input,
                                double gradient_seed) {
  Impl& m = *impl_;
  const at::AutoGradMode graph(true);
  KeptPass pass{.tokens = batch.tokens, .layout = m.layout_of(batch.tokens, batch.documents)};
  at::Tensor x = m.enter(batch.tokens, pass.layout, input);  // [b s, h]
  for (const auto& [segment, weights] : m.blocks) {
    m.acquire(segment, PassDirection::kForward);
    KeptBlock kept = block_forward(x, weights, pass.layout, m.rope, m.context, m.recompute_of_block(segment));
    x = kept.output;  // [b s, h]
    pass.blocks.emplace(segment, std::move(kept));
  }
  ChunkOutput out;
  if (m.has_head()) {
    const SegmentIndex segment = m.head_segment();
    m.acquire(segment, PassDirection::kForward);
    const at::Tensor own = leaf_of(x);                            // [b s, h]
    const at::Tensor normed = norm(own, m.head.norm, m.context);  // [b s, h]
    pass.final_norm = {.input = own, .output = normed};
    m.prepare_gradients(segment);  // the loss writes that of the head matrix
    const HeadLoss loss = m.loss_of(normed.detach(),
                                    batch.labels,
                                    {.chunk_tokens = m.chunk, .with_gradient = true, .seed = gradient_seed});
    pass.d_normed = loss.d_hidden;  // [b s, h]
    out.loss = loss.sums;
  } else {
    out.hidden = x.detach();  // [b s, h]
  }
  const bool added = m.kept.emplace(micro_batch, std::move(pass)).second;
  LLMTRAIN_CHECK(added, "two forwards of micro-batch {}", micro_batch);
  return out;
}

at::Tensor ModelChunk::backward(int micro_batch,
                                const at::Tensor& d_hidden,
                                const SegmentCallback& on_gradient_ready) {
  Impl& m = *impl_;
  KeptPass pass = std::move(m.kept_pass(micro_batch));
  m.kept.erase(micro_batch);
  at::Tensor grad = d_hidden;  // [b s, h]
  for (SegmentIndex segment = m.range.end - 1; segment >= m.range.first; --segment) {
    if (segment > 0) m.acquire(segment, PassDirection::kBackward);
    m.prepare_gradients(segment);
    grad = m.back(pass, segment, grad);  // [b s, h]
    m.report(segment, on_gradient_ready);
  }
  return grad;
}

at::Tensor ModelChunk::input_gradient(int micro_batch, const at::Tensor& d_hidden) {
  Impl& m = *impl_;
  KeptPass& pass = m.kept_pass(micro_batch);
  at::Tensor grad = d_hidden;  // [b s, h]
  for (SegmentIndex segment = m.range.end - 1; segment >= m.range.first; --segment) {
    if (segment > 0) m.acquire(segment, PassDirection::kBackward);
    WeightGradients& later = pass.deferred[segment];
    m.context.runner = [&later](std::function<void()> gradient) { later.push_back(std::move(gradient)); };
    grad = m.back(pass, segment, grad);  // [b s, h]
    m.context.runner = {};
  }
  return grad;
}

void ModelChunk::weight_gradient(int micro_batch, const SegmentCallback& on_gradient_ready) {
  Impl& m = *impl_;
  KeptPass pass = std::move(m.kept_pass(micro_batch));
  m.kept.erase(micro_batch);
  const at::AutoGradMode no_graph(false);
  for (SegmentIndex segment = m.range.end - 1; segment >= m.range.first; --segment) {
    m.prepare_gradients(segment);
    for (std::function<void()>& gradient : pass.deferred[segment]) std::exchange(gradient, nullptr)();
    m.report(segment, on_gradient_ready);
  }
}

int ModelChunk::num_kept() const {
  return static_cast<int>(impl_->kept.size());
}

ChunkOutput ModelChunk::evaluate(const MicroBatch& batch, const at::Tensor& input) {
  Impl& m = *impl_;
  const at::AutoGradMode no_graph(false);
  const SequenceLayout layout = m.layout_of(batch.tokens, batch.documents);
  const at::Tensor hidden = m.hidden_without_graph(batch.tokens, layout, input, nullptr);  // [b s, h]
  if (!m.has_head()) return {.hidden = hidden};
  return {.hidden = {}, .loss = m.loss_of(hidden, batch.labels, {.chunk_tokens = m.chunk}).sums};
}

void ModelChunk::pass_through() {
  for (SegmentIndex s = impl_->range.first; s < impl_->range.end; ++s)
    impl_->acquire(s, PassDirection::kForward);
}

at::Tensor ModelChunk::logits(const at::Tensor& tokens, KvCache* cache) {
  Impl& m = *impl_;
  LLMTRAIN_CHECK(m.has_embedding() && m.has_head(), "logits of a part of the model");
  const at::AutoGradMode no_graph(false);
  const SequenceLayout layout = cache ? m.layout_behind(*cache, tokens) : m.layout_of(tokens);
  const at::Tensor hidden = m.hidden_without_graph(tokens, layout, {}, cache);  // [b n, h]
  if (cache) cache->advance(tokens.size(1));
  return head_logits(hidden, m.head).view({layout.batch, layout.length, -1});  // [b, n, vocab]
}

KvCache ModelChunk::make_cache(std::int64_t batch, std::int64_t capacity) const {
  std::vector<KvCache::Layer> layers;
  for (const auto& [segment, weights] : impl_->blocks) {
    const std::vector<std::int64_t> shape = {batch, weights.kv_heads, capacity, weights.head_dim};
    layers.push_back(
        {.keys = zeros_host(shape, impl_->compute), .values = zeros_host(shape, impl_->compute)});
  }
  return KvCache(std::move(layers), capacity);
}

}  // namespace llmtrain
