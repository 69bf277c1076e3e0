#include "llmtrain/model/attention.hpp"

#include <limits>
#include <optional>

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/full.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"
#include "llmtrain/tensor/native_types.hpp"

namespace llmtrain {
namespace {

// The kernel aligns `causal` to the top left; the bottom-right form of a query block that follows cached
// keys needs a mask. Undefined when the plain flag, or nothing, says the same.
at::Tensor shifted_causal_mask(const at::Tensor& q, const at::Tensor& k) {
  const std::int64_t queries = q.size(2);
  const std::int64_t keys = k.size(2);
  if (queries == 1 || queries == keys) return {};
  LLMTRAIN_CHECK(queries < keys, "causal attention of {} queries over {} keys", queries, keys);
  return at::full({queries, keys}, -std::numeric_limits<double>::infinity(), q.options())
      .triu_(keys - queries + 1);  // [s, u]
}

// Key heads repeated so that there is one for every query head.
at::Tensor expand_heads(const at::Tensor& x, std::int64_t groups) {
  if (groups == 1) return x;
  return x.unsqueeze(2)
      .expand({x.size(0), x.size(1), groups, x.size(2), x.size(3)})
      .reshape({x.size(0), x.size(1) * groups, x.size(2), x.size(3)});  // [b, n, u, d]
}

// The sum over the query heads of each key head.
at::Tensor fold_heads(const at::Tensor& x, std::int64_t groups) {
  if (groups == 1) return x;
  const at::ScalarType wide = scalar_type(accumulation_type(dtype_of(x.scalar_type())));
  return x.reshape({x.size(0), exact_div(x.size(1), groups), groups, x.size(2), x.size(3)})
      .sum(2, false, wide)
      .to(x.scalar_type());  // [b, k, u, d]
}

struct Masking {
  bool causal = false;
  std::optional<at::Tensor> mask{};
};

Masking masking(const at::Tensor& q, const at::Tensor& k, bool causal) {
  if (!causal || q.size(2) == 1) return {};
  if (at::Tensor mask = shifted_causal_mask(q, k); mask.defined()) return {.mask = mask};
  return {.causal = true};
}

// Where the CPU does not multiply a narrow type, the kernel's own products are far slower than widening its
// inputs.
bool should_widen(const at::Tensor& q) {
  return !multiplies_natively(q.scalar_type());
}

at::Tensor as_rows(const at::Tensor& x) {
  return x.transpose(1, 2).contiguous().transpose(1, 2);  // same shape
}

}  // namespace

AttentionResult attention(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale) {
  if (should_widen(q)) {
    AttentionResult wide = attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), causal, scale);
    return {.out = wide.out.to(q.scalar_type()), .lse = wide.lse};
  }
  const std::int64_t groups = exact_div(q.size(1), k.size(1));
  const Masking mask = masking(q, k, causal);
  auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      q, expand_heads(k, groups), expand_heads(v, groups), 0.0, mask.causal, mask.mask, scale);
  return {.out = as_rows(out), .lse = lse};
}

void merge_attention(const AttentionResult& whole, const AttentionResult& part) {
  const at::Tensor lse = whole.lse.logaddexp(part.lse);  // [b, n, s]
  whole.out.mul_(whole.lse.sub(lse).exp_().unsqueeze(3))
      .addcmul_(part.out.to(whole.out.scalar_type()), part.lse.sub(lse).exp_().unsqueeze(3));  // [b, n, s, d]
  whole.lse.copy_(lse);
}

AttentionGradients attention_backward(const at::Tensor& d_out,
                                      const at::Tensor& q,
                                      const at::Tensor& k,
                                      const at::Tensor& v,
                                      const AttentionResult& forward,
                                      bool causal,
                                      double scale) {
  if (should_widen(q)) {
    const AttentionResult wide{.out = forward.out.to(at::kFloat), .lse = forward.lse};
    return attention_backward(
        d_out.to(at::kFloat), q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), wide, causal, scale);
  }
  const std::int64_t groups = exact_div(q.size(1), k.size(1));
  const Masking mask = masking(q, k, causal);
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(d_out,
                                                                               q,
                                                                               expand_heads(k, groups),
                                                                               expand_heads(v, groups),
                                                                               forward.out,
                                                                               forward.lse,
                                                                               0.0,
                                                                               mask.causal,
                                                                               mask.mask,
                                                                               scale);
  return {.dq = as_rows(dq), .dk = as_rows(fold_heads(dk, groups)), .dv = as_rows(fold_heads(dv, groups))};
}

}  // namespace llmtrain
