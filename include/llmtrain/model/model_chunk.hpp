#pragma once

#include <functional>
#include <memory>

#include "llmtrain/core/plant.hpp"
#include "llmtrain/model/documents.hpp"
#include "llmtrain/model/rope.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"
#include "llmtrain/placement/stage_cut.hpp"
#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/tensor/tensor.hpp"

// Segments of the decoder-only transformer that follow one another, computed as one: the whole model, or what
// a pipeline stage holds of it in one piece.
//
// Between segments (embedding, blocks, head with loss) forward and backward are explicit; inside a
// segment they are autograd. A segment keeps its input and output from forward to backward, and what its
// graph needs unless that is computed again. Weight gradients are *added* to the main gradients of
// FlatParameters in fp32 (fp64 under fp64): sums over micro-batches are exact up to that rounding, also under
// bf16.
// It allocates no parameters and updates none, and knows no other chunk: who calls it carries hidden states
// and their gradients from one to the next. Under tensor parallelism the ranks of a group compute the same
// micro-batches together, each with its shards; they talk at the borders of each half of a block only. Under
// sequence parallelism a rank computes its own tokens of every sequence (placement/sequence_cut.hpp) and
// talks inside attention only.
//
// Shapes: b sequences, s tokens of each here, h width. With a sequence that is sharded over tp, a hidden
// state has this rank's part of the b s rows.
namespace llmtrain {

class Communicator;
class GradientReducer;
class KvCache;
class ParameterGather;

// Sequences, or one rank's tokens of each where they are cut over an sp group.
struct MicroBatch {
  at::Tensor tokens;  // [b, s] int64
  at::Tensor labels;  // [b, s] int64; what follows each token, -100 = not counted
  Documents documents{};
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

struct TransformerOptions {
  std::int64_t max_positions = 0;        // rows of the rope tables; the longest sequence
  std::int64_t loss_chunk_tokens = 0;    // tokens whose logits exist at once; 0 = about 16 MiB of logits
  Communicator* tensor_group = nullptr;  // the tp group that `params` is cut for; null or one rank = alone
  bool shard_sequence = false;           // its ranks keep a part of the tokens each between regions
  int overlap_chunks = 1;  // pieces of tokens, of which they send one while they compute another
  Communicator* sequence_group = nullptr;  // the sp group that sequences are cut over; null = they are whole
  SequenceMethod sp_method = SequenceMethod::kRing;
  ParameterGather* weights = nullptr;    // makes the weights of a segment whole; null = they always are
  GradientReducer* gradients = nullptr;  // makes room for gradients of a segment; null = it is always there
  RopeTables rope{};    // position_tables() that chunks share; undefined = each makes its own
  MemorySpec memory{};  // what blocks keep for backward
  Plant plant = Plant::kNone;
};

struct ChunkOutput {
  at::Tensor hidden;  // [b s, h] for the chunk after this one; undefined behind the head
  LossSums loss{};    // of a chunk with the head
};

class ModelChunk {
 public:
  // `model` is resolved; `params` holds these segments of parameter_table(model) and outlives this. With a
  // sharded sequence the tokens of every micro-batch must be a multiple of the group's ranks.
  ModelChunk(const ModelSpec& model,
             FlatParameters& params,
             SegmentRange segments,
             const TransformerOptions& options);
  ~ModelChunk();
  ModelChunk(ModelChunk&&) noexcept;

  bool has_embedding() const;
  bool has_head() const;

  // One micro-batch, kept under its number until its weight gradients are made. `input` is what the chunk
  // before this one made; it is not looked at where the embedding is. Gradients will be those of
  // gradient_seed x (sum of losses); the seed is known now since it is a constant (1 / nominal tokens of the
  // global batch), and the head uses it at once: logits and their gradient exist only chunk by chunk.
  ChunkOutput forward(int micro_batch,
                      const MicroBatch& batch,
                      const at::Tensor& input,
                      double gradient_seed);

  // From the last segment down; `d_hidden` is the gradient of what forward made, not looked at where the head
  // is. Returns the gradient of forward's input, undefined where the embedding is. The callback runs when
  // this micro-batch's gradients of a segment are complete (with tied embeddings the head matrix belongs to
  // the embedding, segment 0).
  at::Tensor backward(int micro_batch, const at::Tensor& d_hidden, const SegmentCallback& on_gradient_ready);

  // The same in two halves, for schedules that fill their bubbles with the second: what the chunk before
  // waits for, and what nobody does. Nothing is added to main gradients before the second.
  at::Tensor input_gradient(int micro_batch, const at::Tensor& d_hidden);
  void weight_gradient(int micro_batch, const SegmentCallback& on_gradient_ready);

  // Micro-batches that are kept.
  int num_kept() const;

  // Without gradients.
  ChunkOutput evaluate(const MicroBatch& batch, const at::Tensor& input);
  // Takes the turns of evaluate() without computing anything: for a rank that has no samples while its peers
  // do.
  void pass_through();
  // Of a chunk that is the whole model; with a cache, of tokens that follow those in it, which are added to
  // it. Not where sequences are cut. [b, n] -> [b, n, vocab] fp32 or fp64
  at::Tensor logits(const at::Tensor& tokens, KvCache* cache = nullptr);
  KvCache make_cache(std::int64_t batch, std::int64_t capacity) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmtrain
