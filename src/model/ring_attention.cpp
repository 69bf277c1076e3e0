#include "ring_attention.hpp"

#include <optional>

#include <ATen/ops/empty_like.h>

#include "llmtrain/core/division.hpp"

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

// What of this rank's queries and of a block's keys meets. A rank's rows are an early and a late half.
struct Meeting {
  TokenRun queries{};
  TokenRun keys{};
  bool causal = false;

  at::Tensor of_queries(const at::Tensor& x) const { return x.narrow(2, queries.first, queries.count); }
  at::Tensor of_keys(const at::Tensor& x) const { return x.narrow(2, keys.first, keys.count); }
  AttentionResult of(const AttentionResult& whole) const {
    return {.out = of_queries(whole.out), .lse = of_queries(whole.lse)};
  }
};

Meeting meeting(int own, int source, std::int64_t rows) {
  const TokenRun all{.first = 0, .count = rows};
  const std::int64_t half = exact_div(rows, 2);
  if (source == own) return {.queries = all, .keys = all, .causal = true};
  if (source < own) return {.queries = all, .keys = {.first = 0, .count = half}};
  return {.queries = {.first = half, .count = half}, .keys = all};
}

// Whose block is here after `step` hops.
int source_of(const Communicator& ring, int step) {
  return (ring.rank() + ring.size() - step) % ring.size();
}

DType type_of(const at::Tensor& x) {
  return dtype_of(x.scalar_type());
}

AttentionResult forward(const QueryKeyValue& own, double scale, Communicator& ring) {
  at::Tensor block = block_of(own.k, own.v, type_of(own.k));  // [2, b, s, k, d]
  AttentionResult merged;
  for (int step = 0; step < ring.size(); ++step) {
    std::optional<Hop> next;
    if (step + 1 < ring.size()) next.emplace(ring, block);
    const Meeting here = meeting(ring.rank(), source_of(ring, step), own.q.size(2));
    const AttentionResult part = attention(here.of_queries(own.q),
                                           here.of_keys(keys_of(block)),
                                           here.of_keys(values_of(block)),
                                           here.causal,
                                           scale);
    if (step == 0)
      merged = AttentionResult{.out = part.out.to(scalar_type(accumulation_type(type_of(own.q)))),
                               .lse = part.lse};
    else
      merge_attention(here.of(merged), part);
    if (next) block = next->arrive();
  }
  merged.out = merged.out.to(own.q.scalar_type());
  return merged;
}

AttentionGradients backward(const at::Tensor& d_out,
                            const QueryKeyValue& own,
                            const AttentionResult& merged,
                            double scale,
                            Communicator& ring) {
  const DType wide = accumulation_type(type_of(own.q));
  at::Tensor block = block_of(own.k, own.v, type_of(own.k));  // [2, b, s, k, d]
  at::Tensor sums;                                            // [2, b, s, k, d] gradients of the block here
  at::Tensor dq;                                              // [b, n, s, d]
  std::optional<Hop> next_sums;
  for (int step = 0; step < ring.size(); ++step) {
    std::optional<Hop> next;
    if (step + 1 < ring.size()) next.emplace(ring, block);
    const Meeting here = meeting(ring.rank(), source_of(ring, step), own.q.size(2));
    const AttentionGradients part = attention_backward(here.of_queries(d_out),
                                                       here.of_queries(own.q),
                                                       here.of_keys(keys_of(block)),
                                                       here.of_keys(values_of(block)),
                                                       here.of(merged),
                                                       here.causal,
                                                       scale);
    if (step == 0) {
      dq = part.dq.to(scalar_type(wide));
      sums = block_of(part.dk, part.dv, wide);
    } else {
      here.of_queries(dq).add_(part.dq);
      sums = next_sums->arrive();
      here.of_keys(keys_of(sums)).add_(part.dk);
      here.of_keys(values_of(sums)).add_(part.dv);
    }
    next_sums.emplace(ring, sums);
    if (next) block = next->arrive();
  }
  sums = next_sums->arrive();  // after a whole turn, those of the own block
  return {.dq = dq, .dk = keys_of(sums), .dv = values_of(sums)};
}

}  // namespace

// The travelling blocks are not kept: keys and values lie where the queries lie.
Attended ring_attention(const QueryKeyValue& own, double scale, Communicator& ring) {
  const AttentionResult merged = forward(own, scale, ring);
  return {.out = merged.out, .backward = [own, merged, scale, &ring](const at::Tensor& d_out) {
            return backward(d_out, own, merged, scale, ring);
          }};
}

}  // namespace llmtrain
