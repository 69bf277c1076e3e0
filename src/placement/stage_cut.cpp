#include "llmtrain/placement/stage_cut.hpp"

#include <algorithm>
#include <tuple>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

// Multiply-adds of one token's forward.
struct Work {
  std::int64_t layer = 0;
  std::int64_t embedding = 0;
  std::int64_t head = 0;
};

Work work_of(const ModelSpec& m, std::int64_t seq_length) {
  const std::int64_t query_width = m.num_heads * m.head_dim.value();
  const std::int64_t kv_width = m.num_kv_heads.value() * m.head_dim.value();
  const bool gated = m.mlp == MlpKind::kSwiglu || m.mlp == MlpKind::kGeglu;
  const std::int64_t matrices = m.hidden_size * (2 * query_width + 2 * kv_width) +
                                (gated ? 3 : 2) * m.hidden_size * m.ffn_hidden_size.value();
  return {.layer = matrices + query_width * seq_length,
          .embedding = m.hidden_size,
          .head = m.hidden_size * m.vocab_size};
}

// What a virtual stage has been given so far.
struct Load {
  std::int64_t work = 0;
  std::int64_t layers = 0;
};

// Layers are alike, so giving each to where it ends first makes the slowest stage as fast as it can be.
std::size_t next_to_load(const std::vector<Load>& loads) {
  std::size_t best = 0;
  for (std::size_t s = 1; s < loads.size(); ++s)
    if (std::tie(loads[s].work, loads[s].layers) <= std::tie(loads[best].work, loads[best].layers)) best = s;
  return best;
}

}  // namespace

std::vector<std::int64_t> balanced_layers(const ModelSpec& model,
                                          std::int64_t seq_length,
                                          int virtual_stages) {
  LLMTRAIN_CHECK(virtual_stages >= 1 && virtual_stages <= most_virtual_stages(model.num_layers),
                 "{} layers on {} virtual stages",
                 model.num_layers,
                 virtual_stages);
  const Work work = work_of(model, seq_length);
  std::vector<Load> loads(static_cast<std::size_t>(virtual_stages));
  for (std::size_t s = 1; s + 1 < loads.size(); ++s) loads[s] = {.work = work.layer, .layers = 1};
  loads.front().work += work.embedding;
  loads.back().work += work.head;
  for (std::int64_t left = model.num_layers - std::max(0, virtual_stages - 2); left > 0; --left) {
    Load& load = loads[next_to_load(loads)];
    load.work += work.layer;
    load.layers += 1;
  }
  std::vector<std::int64_t> layers;
  for (const Load& load : loads) layers.push_back(load.layers);
  return layers;
}

std::vector<SegmentRange> stage_segments(std::span<const std::int64_t> layers) {
  std::vector<SegmentRange> ranges;
  SegmentIndex next = 1;  // 0 is the embedding
  for (const std::int64_t count : layers) {
    const SegmentIndex first = next;
    next += static_cast<SegmentIndex>(count);
    ranges.push_back({first, next});
  }
  LLMTRAIN_CHECK(!ranges.empty(), "a model is cut into one virtual stage at least");
  ranges.front().first = 0;
  ranges.back().end = next + 1;
  return ranges;
}

}  // namespace llmtrain
