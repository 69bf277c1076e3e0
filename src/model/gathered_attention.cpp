#include "gathered_attention.hpp"

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

AttentionGradients backward(const at::Tensor& d_out,
                            const QueryKeyValue& own,
                            const AttentionResult& merged,
                            double scale,
                            Communicator& group) {
  const std::int64_t s = own.k.size(2);
  const DType wide = accumulation_type(dtype_of(own.q.scalar_type()));
  const KeyValue past = gather_past(own, group);  // [b, k, u, d]
  AttentionGradients grads = attention_backward(d_out, own.q, own.k, own.v, merged, true, scale);
  at::Tensor parts = empty_rows(own.k, s * group.size(), wide).zero_();  // [ranks x s, b, 2k, d]
  const KeyValue mine = split(parts).narrow(group.rank() * s, s);
  mine.k.copy_(grads.dk);
  mine.v.copy_(grads.dv);
  if (group.rank() > 0) {
    const AttentionGradients before = attention_backward(d_out, own.q, past.k, past.v, merged, false, scale);
    const KeyValue theirs = split(parts).narrow(0, group.rank() * s);
    theirs.k.copy_(before.dk);
    theirs.v.copy_(before.dv);
    grads.dq = grads.dq.to(scalar_type(wide)).add_(before.dq);
  }
  at::Tensor sums = empty_rows(own.k, s, wide);  // [s, b, 2k, d]
  group.reduce_scatter(parts, sums, ReduceOp::kSum);
  return {.dq = grads.dq, .dk = split(sums).k, .dv = split(sums).v};
}

}  // namespace

Attended gathered_attention(const QueryKeyValue& own, double scale, Communicator& group) {
  const KeyValue past = gather_past(own, group);  // [b, k, u, d]
  AttentionResult merged = attention(own.q, own.k, own.v, true, scale);
  if (group.rank() > 0) {
    merged.out = merged.out.to(scalar_type(accumulation_type(dtype_of(own.q.scalar_type()))));
    merge_attention(merged, attention(own.q, past.k, past.v, false, scale));
    merged.out = merged.out.to(own.q.scalar_type());
  }
  return {.out = merged.out, .backward = [own, merged, scale, &group](const at::Tensor& d_out) {
            return backward(d_out, own, merged, scale, group);
          }};
}

}  // namespace llmtrain
