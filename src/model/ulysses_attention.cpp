#include "ulysses_attention.hpp"

#include <ATen/ops/empty_like.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"

#include "attention_pieces.hpp"
#include "token_rows.hpp"

// Shapes: b sequences, s own rows of each and S of all ranks, n query heads and k key/value heads of the
// model, q and h of them on a rank during attention, d head width.
namespace llmtrain {
namespace {

// Which heads a rank attends with.
struct HeadShares {
  int ranks = 1;
  std::int64_t all_q = 0;
  std::int64_t all_kv = 0;
  std::int64_t q = 0;   // of one rank
  std::int64_t kv = 0;  // of one rank; ranks share one where there are fewer than ranks

  std::int64_t first_q(int rank) const { return rank * q; }
  std::int64_t first_kv(int rank) const { return rank * all_kv / ranks; }
  std::int64_t width() const { return q + 2 * kv; }
};

HeadShares head_shares(std::int64_t q_heads, std::int64_t kv_heads, int ranks) {
  const bool shared = kv_heads < ranks;
  LLMTRAIN_CHECK(!shared || ranks % kv_heads == 0, "{} key heads over {} ranks", kv_heads, ranks);
  return {.ranks = ranks,
          .all_q = q_heads,
          .all_kv = kv_heads,
          .q = exact_div(q_heads, ranks),
          .kv = shared ? 1 : exact_div(kv_heads, ranks)};
}

// Query, key and value heads side by side in [b, q + 2h, s, d].
QueryKeyValue split(const at::Tensor& heads, const HeadShares& shares) {
  return {.q = heads.narrow(1, 0, shares.q),
          .k = heads.narrow(1, shares.q, shares.kv),
          .v = heads.narrow(1, shares.q + shares.kv, shares.kv)};
}

// Of some tokens and the heads that rank `rank` attends with.
QueryKeyValue share_of(const QueryKeyValue& own, const HeadShares& shares, int rank) {
  return {.q = own.q.narrow(1, shares.first_q(rank), shares.q),
          .k = own.k.narrow(1, shares.first_kv(rank), shares.kv),
          .v = own.v.narrow(1, shares.first_kv(rank), shares.kv)};
}

// Part r of the first dimension goes to rank r and comes from it.
at::Tensor exchanged(const at::Tensor& parts, Communicator& group) {
  at::Tensor received = at::empty_like(parts);
  group.all_to_all(parts, received);
  return received;
}

// Some tokens of every head -> every token of some heads: [b, n, s, d] x 3 -> [b, q + 2h, S, d].
at::Tensor to_heads(const QueryKeyValue& own, const HeadShares& shares, Communicator& group) {
  const at::Tensor& q = own.q;
  at::Tensor parts = empty_host({group.size(), q.size(2), q.size(0), shares.width(), q.size(3)},
                                dtype_of(q.scalar_type()));  // [ranks, s, b, q + 2h, d]
  for (int rank = 0; rank < group.size(); ++rank) {
    const QueryKeyValue to = split(heads_of(parts.select(0, rank)), shares);
    const QueryKeyValue from = share_of(own, shares, rank);
    to.q.copy_(from.q);
    to.k.copy_(from.k);
    to.v.copy_(from.v);
  }
  return heads_of(exchanged(parts, group).flatten(0, 1));  // [b, q + 2h, S, d]
}

at::Tensor zero_gradients(const at::Tensor& grad, std::int64_t heads, std::int64_t rows, DType type) {
  return zeros_host({grad.size(0), rows, heads, grad.size(3)}, type).transpose(1, 2);  // [b, heads, rows, d]
}

// And back, gradients of shared key/value heads added up; they travel in `type`.
AttentionGradients to_tokens(const AttentionGradients& grads,
                             const HeadShares& shares,
                             DType type,
                             Communicator& group) {
  const std::int64_t rows = exact_div(grads.dq.size(2), shares.ranks);
  at::Tensor parts = empty_host({shares.ranks, rows, grads.dq.size(0), shares.width(), grads.dq.size(3)},
                                type);                                      // [ranks, s, b, q + 2h, d]
  const QueryKeyValue from = split(heads_of(parts.flatten(0, 1)), shares);  // [b, ., S, d]
  from.q.copy_(grads.dq);
  from.k.copy_(grads.dk);
  from.v.copy_(grads.dv);
  const at::Tensor received = exchanged(parts, group);  // [ranks, s, b, q + 2h, d]
  const DType wide = accumulation_type(type);
  const QueryKeyValue sums{.q = zero_gradients(grads.dq, shares.all_q, rows, type),    // [b, n, s, d]
                           .k = zero_gradients(grads.dk, shares.all_kv, rows, wide),   // [b, k, s, d]
                           .v = zero_gradients(grads.dv, shares.all_kv, rows, wide)};  // [b, k, s, d]
  for (int rank = 0; rank < shares.ranks; ++rank) {
    const QueryKeyValue to = share_of(sums, shares, rank);
    const QueryKeyValue part = split(heads_of(received.select(0, rank)), shares);
    to.q.copy_(part.q);
    to.k.add_(part.k);
    to.v.add_(part.v);
  }
  return {.dq = sums.q, .dk = sums.k, .dv = sums.v};
}

// [b, q, S, d] -> [b, n, s, d], lying in memory as [b, s, n, d].
at::Tensor output_to_tokens(const at::Tensor& out, Communicator& group) {
  const at::Tensor parts =
      token_rows(out).contiguous().unflatten(0, {group.size(), -1});  // [ranks, s, b, q, d]
  const at::Tensor rows = exchanged(parts, group).permute({2, 1, 0, 3, 4}).flatten(2, 3);  // [b, s, n, d]
  return rows.contiguous().transpose(1, 2);                                                // [b, n, s, d]
}

// [b, n, s, d] -> [b, q, S, d]
at::Tensor output_to_heads(const at::Tensor& out, Communicator& group) {
  const at::Tensor parts = out.transpose(1, 2)
                               .unflatten(2, {group.size(), -1})
                               .permute({2, 1, 0, 3, 4})
                               .contiguous();              // [ranks, s, b, q, d]
  return heads_of(exchanged(parts, group).flatten(0, 1));  // [b, q, S, d]
}

}  // namespace

// What is kept lies in memory as every token of some heads; the caller may drop its own tokens.
Attended ulysses_attention(const QueryKeyValue& own,
                           double scale,
                           Communicator& group,
                           const Documents& documents) {
  const HeadShares shares = head_shares(own.q.size(1), own.k.size(1), group.size());
  const DType type = dtype_of(own.q.scalar_type());
  const Attended attended = attend_whole(split(to_heads(own, shares, group), shares), scale, documents);
  return {.out = output_to_tokens(attended.out, group),
          .backward = [shares, type, back = attended.backward, &group](const at::Tensor& d_out) {
            return to_tokens(back(output_to_heads(d_out, group)), shares, type, group);
          }};
}

}  // namespace llmtrain
