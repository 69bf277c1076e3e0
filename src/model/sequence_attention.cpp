#include "llmtrain/model/sequence_attention.hpp"

#include "gathered_attention.hpp"
#include "ring_attention.hpp"
#include "ulysses_attention.hpp"

namespace llmtrain {
namespace {

Attended attend_alone(const QueryKeyValue& own, double scale) {
  const AttentionResult result = attention(own.q, own.k, own.v, true, scale);
  return {.out = result.out, .backward = [own, result, scale](const at::Tensor& d_out) {
            return attention_backward(d_out, own.q, own.k, own.v, result, true, scale);
          }};
}

}  // namespace

SequenceCut SequenceGroup::cut(std::int64_t own_length) const {
  if (is_alone()) return {.length = own_length};
  return {.length = own_length * group_->size(),
          .ranks = group_->size(),
          .rank = group_->rank(),
          .balanced = is_balanced(method_)};
}

Attended causal_attention(const QueryKeyValue& own, double scale, const SequenceGroup& group) {
  if (group.is_alone()) return attend_alone(own, scale);
  switch (group.method()) {
    case SequenceMethod::kRing: return ring_attention(own, scale, group.ranks());
    case SequenceMethod::kUlysses: return ulysses_attention(own, scale, group.ranks());
    case SequenceMethod::kAllGather: break;
  }
  return gathered_attention(own, scale, group.ranks());
}

}  // namespace llmtrain
