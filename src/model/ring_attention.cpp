#include "ring_attention.hpp"

#include <optional>

#include <ATen/ops/empty_like.h>

#include "llmtrain/core/division.hpp"

#include "attention_pieces.hpp"

// Shapes: b sequences, s own rows of each, n query heads, k key/value heads, d head width.
namespace llmtrain {
namespace {

// A tensor on its way to the next rank, and the one that comes from the rank before.
class Hop {
 public:
  Hop(Communicator& ring, const at::Tensor& out)
      : in_(at::empty_like(out)),
        pending_(ring.send_recv_async(
            out, (ring.rank() + 1) % ring.size(), in_, (ring.rank() + ring.size() - 1) % ring.size())) {}

  at::Tensor arrive() {
    pending_->wait();
    return in_;
  }

 private:
  at::Tensor in_;
  std::unique_ptr<Pending> pending_;
};

at::Tensor keys_of(const at::Tensor& block) {
  return block.select(0, 0).transpose(1, 2);  // [b, k, s, d]
}
at::Tensor values_of(const at::Tensor& block) {
  return block.select(0, 1).transpose(1, 2);  // [b, k, s, d]
}

// Keys and values, or their gradients, as one block. [2, b, s, k, d]
at::Tensor block_of(const at::Tensor& keys, const at::Tensor& values, DType type) {
  at::Tensor block = empty_host({2, keys.size(0), keys.size(2), keys.size(1), keys.size(3)}, type);
  keys_of(block).copy_(keys);
  values_of(block).copy_(values);
  return block;
}

// What of this rank's queries and of a block's keys meets, where sequences are whole documents. A rank's rows
// are an early and a late half.
AttentionPiece meeting(int own, int source, std::int64_t sequences, std::int64_t rows) {
  const TokenRun all{.first = 0, .count = rows};
  const std::int64_t half = exact_div(rows, 2);
  AttentionPiece piece{.sequences = {.first = 0, .count = sequences}, .queries = all, .keys = all};
  if (source == own) piece.causal = true;
  if (source < own) piece.keys.count = half;
  if (source > own) piece.queries = {.first = half, .count = half};
  return piece;
}

std::vector<TokenRun> runs_of(int rank, const Communicator& ring, std::int64_t rows) {
  return SequenceCut{.length = rows * ring.size(), .ranks = ring.size(), .rank = rank, .balanced = true}
      .runs();
}

std::vector<AttentionPiece> pieces_with(int source,
                                        const at::Tensor& q,
                                        const Communicator& ring,
                                        const Documents& documents) {
  if (!documents.mask()) return {meeting(ring.rank(), source, q.size(0), q.size(2))};
  return pieces_of(runs_of(ring.rank(), ring, q.size(2)), runs_of(source, ring, q.size(2)), documents);
}

// Whose block is here after `step` hops.
int source_of(const Communicator& ring, int step) {
  return (ring.rank() + ring.size() - step) % ring.size();
}

DType type_of(const at::Tensor& x) {
  return dtype_of(x.scalar_type());
}

AttentionResult forward(const QueryKeyValue& own,
                        double scale,
                        Communicator& ring,
                        const Documents& documents) {
  at::Tensor block = block_of(own.k, own.v, type_of(own.k));  // [2, b, s, k, d]
  AttentionResult merged = attended_to_nothing(own.q);
  for (int step = 0; step < ring.size(); ++step) {
    std::optional<Hop> next;
    if (step + 1 < ring.size()) next.emplace(ring, block);
    const auto pieces = pieces_with(source_of(ring, step), own.q, ring, documents);
    attend_pieces(merged, own.q, keys_of(block), values_of(block), pieces, scale);
    if (next) block = next->arrive();
  }
  merged.out = merged.out.to(own.q.scalar_type());
  return merged;
}

AttentionGradients backward(const at::Tensor& d_out,
                            const QueryKeyValue& own,
                            const AttentionResult& merged,
                            double scale,
                            Communicator& ring,
                            const Documents& documents) {
  at::Tensor block = block_of(own.k, own.v, type_of(own.k));  // [2, b, s, k, d]
  at::Tensor sums;                                            // [2, b, s, k, d] gradients of the block here
  at::Tensor dq;                                              // [b, n, s, d]
  std::optional<Hop> next_sums;
  for (int step = 0; step < ring.size(); ++step) {
    std::optional<Hop> next;
    if (step + 1 < ring.size()) next.emplace(ring, block);
    const AttentionGradients part =
        pieces_backward(d_out,
                        own.q,
                        keys_of(block),
                        values_of(block),
                        merged,
                        pieces_with(source_of(ring, step), own.q, ring, documents),
                        scale);
    if (step == 0) {
      dq = part.dq;
      sums = block_of(part.dk, part.dv, type_of(part.dk));
    } else {
      dq.add_(part.dq);
      sums = next_sums->arrive();
      keys_of(sums).add_(part.dk);
      values_of(sums).add_(part.dv);
    }
    next_sums.emplace(ring, sums);
    if (next) block = next->arrive();
  }
  sums = next_sums->arrive();  // after a whole turn, those of the own block
  return {.dq = dq, .dk = keys_of(sums), .dv = values_of(sums)};
}

}  // namespace

// The travelling blocks are not kept: keys and values lie where the queries lie.
Attended ring_attention(const QueryKeyValue& own,
                        double scale,
                        Communicator& ring,
                        const Documents& documents) {
  const AttentionResult merged = forward(own, scale, ring, documents);
  return {.out = merged.out, .backward = [own, merged, scale, documents, &ring](const at::Tensor& d_out) {
            return backward(d_out, own, merged, scale, ring, documents);
          }};
}

}  // namespace llmtrain
