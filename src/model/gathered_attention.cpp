#include "gathered_attention.hpp"

#include "attention_pieces.hpp"
#include "token_rows.hpp"

// Shapes: b sequences, s own rows of each, u rows of the ranks before, n query heads, k key/value heads, d
// head width.
namespace llmtrain {
namespace {

struct KeyValue {
  at::Tensor k;  // [b, k, s, d]
  at::Tensor v;  // [b, k, s, d]

  KeyValue narrow(std::int64_t first, std::int64_t count) const {
    return {.k = k.narrow(2, first, count), .v = v.narrow(2, first, count)};
  }
};

// Keys, then values, in rows of tokens [s, b, 2k, d].
KeyValue split(const at::Tensor& rows) {
  const at::Tensor heads = heads_of(rows);  // [b, 2k, s, d]
  const std::int64_t count = heads.size(1) / 2;
  return {.k = heads.narrow(1, 0, count), .v = heads.narrow(1, count, count)};
}

at::Tensor empty_rows(const at::Tensor& like, std::int64_t rows, DType type) {
  return empty_host({rows, like.size(0), 2 * like.size(1), like.size(3)}, type);  // [rows, b, 2k, d]
}

// Of the ranks before this one; nothing on the first.
KeyValue gather_past(const QueryKeyValue& own, Communicator& group) {
  const std::int64_t s = own.k.size(2);
  const DType type = dtype_of(own.k.scalar_type());
  at::Tensor mine = empty_rows(own.k, s, type);                // [s, b, 2k, d]
  at::Tensor all = empty_rows(own.k, s * group.size(), type);  // [ranks x s, b, 2k, d]
  const KeyValue to = split(mine);
  to.k.copy_(own.k);
  to.v.copy_(own.v);
  group.all_gather(mine, all);
  return split(all).narrow(0, group.rank() * s);
}

// Own keys, seen causally, and those of the ranks before, seen whole.
struct Blocks {
  std::vector<AttentionPiece> own;
  std::vector<AttentionPiece> past;
};

Blocks blocks_of(const at::Tensor& q, const Communicator& group, const Documents& documents) {
  const std::int64_t s = q.size(2);
  const TokenRun mine{.first = group.rank() * s, .count = s};
  const TokenRun before{.first = 0, .count = group.rank() * s};
  if (documents.mask())
    return {.own = pieces_of({mine}, {mine}, documents), .past = pieces_of({mine}, {before}, documents)};
  const TokenRun sequences{.first = 0, .count = q.size(0)};
  const TokenRun rows{.first = 0, .count = s};
  Blocks blocks{.own = {{.sequences = sequences, .queries = rows, .keys = rows, .causal = true}}, .past = {}};
  if (before.count > 0) blocks.past = {{.sequences = sequences, .queries = rows, .keys = before}};
  return blocks;
}

AttentionGradients backward(const at::Tensor& d_out,
                            const QueryKeyValue& own,
                            const AttentionResult& merged,
                            const Blocks& blocks,
                            double scale,
                            Communicator& group) {
  const std::int64_t s = own.k.size(2);
  const DType wide = accumulation_type(dtype_of(own.q.scalar_type()));
  const KeyValue past = gather_past(own, group);  // [b, k, u, d]
  const AttentionGradients here = pieces_backward(d_out, own.q, own.k, own.v, merged, blocks.own, scale);
  const AttentionGradients before = pieces_backward(d_out, own.q, past.k, past.v, merged, blocks.past, scale);
  at::Tensor parts = empty_rows(own.k, s * group.size(), wide).zero_();  // [ranks x s, b, 2k, d]
  const KeyValue mine = split(parts).narrow(group.rank() * s, s);
  mine.k.copy_(here.dk);
  mine.v.copy_(here.dv);
  const KeyValue theirs = split(parts).narrow(0, group.rank() * s);
  theirs.k.copy_(before.dk);
  theirs.v.copy_(before.dv);
  at::Tensor sums = empty_rows(own.k, s, wide);  // [s, b, 2k, d]
  group.reduce_scatter(parts, sums, ReduceOp::kSum);
  return {.dq = here.dq.add_(before.dq), .dk = split(sums).k, .dv = split(sums).v};
}

}  // namespace

Attended gathered_attention(const QueryKeyValue& own,
                            double scale,
                            Communicator& group,
                            const Documents& documents) {
  const Blocks blocks = blocks_of(own.q, group, documents);
  const KeyValue past = gather_past(own, group);  // [b, k, u, d]
  AttentionResult merged = attended_to_nothing(own.q);
  attend_pieces(merged, own.q, own.k, own.v, blocks.own, scale);
  attend_pieces(merged, own.q, past.k, past.v, blocks.past, scale);
  merged.out = merged.out.to(own.q.scalar_type());
  return {.out = merged.out, .backward = [own, merged, blocks, scale, &group](const at::Tensor& d_out) {
            return backward(d_out, own, merged, blocks, scale, group);
          }};
}

}  // namespace llmtrain
