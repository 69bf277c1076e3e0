#pragma once

#include <functional>
#include <memory>

#include "llmtrain/core/plant.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"
#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/tensor/tensor.hpp"

// The decoder-only transformer that a ModelSpec describes, computed segment by segment.
//
// Between segments (embedding, blocks, head with loss) forward and backward are explicit; inside a
// segment they are autograd. A segment keeps its input and output from forward to backward, and what its
// graph needs unless that is computed again. Weight gradients are *added* to the main gradients of
// FlatParameters in fp32 (fp64 under fp64): sums over micro-batches are exact up to that rounding, also under
// bf16. It allocates no parameters and updates none. Under tensor parallelism the ranks of a group compute
// the same micro-batches together, each with its shards; they talk at the borders of each half of a block
// only. Under sequence parallelism a rank computes its own tokens of every sequence
// (placement/sequence_cut.hpp) and talks inside attention only.
namespace llmtrain {

class Communicator;
class GradientReducer;
class KvCache;
class ParameterGather;

// Sequences, or one rank's tokens of each where they are cut over an sp group.
struct MicroBatch {
  at::Tensor tokens;  // [b, s] int64
  at::Tensor labels;  // [b, s] int64; what follows each token, -100 = not counted
};

inline constexpr std::int64_t kIgnoredLabel = -100;

// Loss: sum first, divide once. Both add over micro-batches and ranks.
struct LossSums {
  double loss = 0.0;        // sum of -log p(label), in nats
  std::int64_t tokens = 0;  // labels that counted

  LossSums& operator+=(const LossSums& other) {
    loss += other.loss;
    tokens += other.tokens;
    return *this;
  }
};

using SegmentCallback = std::function<void(SegmentIndex)>;
// Runs, or keeps for later, the computation of one weight gradient. A pipeline schedule that splits
// backward fills its bubbles with the kept ones; run them before the segment counts as ready.
using WeightGradientRunner = std::function<void(std::function<void()>)>;

struct TransformerOptions {
  std::int64_t max_positions = 0;          // rows of the rope tables; the longest sequence
  std::int64_t loss_chunk_tokens = 0;      // tokens whose logits exist at once; 0 = about 16 MiB of logits
  Communicator* tensor_group = nullptr;    // the tp group that `params` is cut for; null or one rank = alone
  bool shard_sequence = false;             // its ranks keep a part of the tokens each between regions
  Communicator* sequence_group = nullptr;  // the sp group that sequences are cut over; null = they are whole
  SequenceMethod sp_method = SequenceMethod::kRing;
  ParameterGather* weights = nullptr;    // makes the weights of a segment whole; null = they always are
  GradientReducer* gradients = nullptr;  // makes room for gradients of a segment; null = it is always there
  MemorySpec memory{};                   // what blocks keep for backward
  Plant plant = Plant::kNone;
};

class Transformer {
 public:
  // `model` is resolved; `params` holds parameter_table(model) and outlives this. With a sharded sequence the
  // tokens of every micro-batch must be a multiple of the group's ranks.
  Transformer(const ModelSpec& model, FlatParameters& params, const TransformerOptions& options);
  ~Transformer();
  Transformer(Transformer&&) noexcept;

  // One micro-batch, kept for backward. Gradients will be those of gradient_seed x (sum of losses);
  // the seed is known now since it is a constant (1 / nominal tokens of the global batch), and the head
  // uses it at once: logits and their gradient exist only chunk by chunk.
  LossSums forward(const MicroBatch& batch, double gradient_seed);
  // The oldest micro-batch that is still kept; from the head down to the embedding. The callback runs
  // when this micro-batch's gradients of a segment are complete (with tied embeddings the head matrix
  // belongs to the embedding, segment 0).
  void backward(const SegmentCallback& on_gradient_ready = {});
  // Drops what forward kept, e.g. when a step is given up.
  void discard_kept();

  // Without gradients.
  LossSums evaluate(const MicroBatch& batch);
  at::Tensor logits(const at::Tensor& tokens);  // [b, s] -> [b, s, vocab] fp32 or fp64
  // Tokens that follow those already in the cache; adds them to it. Not where sequences are cut.
  at::Tensor logits(const at::Tensor& tokens, KvCache& cache);  // [b, n] -> [b, n, vocab]
  KvCache make_cache(std::int64_t batch, std::int64_t capacity) const;

  void set_weight_gradient_runner(WeightGradientRunner runner);
  int num_segments() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmtrain
