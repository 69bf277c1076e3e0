#include "llmtrain/model/sequence_attention.hpp"

#include "attention_pieces.hpp"
#include "gathered_attention.hpp"
#include "ring_attention.hpp"
#include "ulysses_attention.hpp"

namespace llmtrain {
SequenceCut SequenceGroup::cut(std::int64_t own_length) const {
  if (is_alone()) return {.length = own_length};
  return {.length = own_length * group_->size(),
          .ranks = group_->size(),
          .rank = plant_ == Plant::kRopeOffset ? 0 : group_->rank(),
          .balanced = is_balanced(method_)};
}

Attended causal_attention(const QueryKeyValue& own,
                          double scale,
                          const SequenceGroup& group,
                          const Documents& documents) {
  if (group.is_alone()) return attend_whole(own, scale, documents);
  switch (group.method()) {
    case SequenceMethod::kRing: return ring_attention(own, scale, group.ranks(), documents);
    case SequenceMethod::kUlysses: return ulysses_attention(own, scale, group.ranks(), documents);
    case SequenceMethod::kAllGather: break;
  }
  return gathered_attention(own, scale, group.ranks(), documents);
}

}  // namespace llmtrain
