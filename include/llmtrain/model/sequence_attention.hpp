#pragma once

#include <functional>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/plant.hpp"
#include "llmtrain/model/attention.hpp"
#include "llmtrain/model/documents.hpp"
#include "llmtrain/placement/sequence_cut.hpp"

// Causal attention over whole sequences, or over the documents in them, of which each rank of an sp group
// holds some tokens.
//
// A rank gives the queries, keys and values of its own tokens, rotated by their positions in the whole
// sequence, and gets what these tokens would get where the sequence is whole. Everything that an sp group
// says to each other inside the model is behind this one function. It knows no projections and no cache.
namespace llmtrain {

// The ranks that share every sequence, and how they do it; one rank alone holds it whole.
class SequenceGroup {
 public:
  SequenceGroup() = default;  // one rank
  SequenceGroup(Communicator* group, SequenceMethod method, Plant plant = Plant::kNone)
      : group_(group != nullptr && group->size() > 1 ? group : nullptr), method_(method), plant_(plant) {}

  bool is_alone() const { return group_ == nullptr; }
  SequenceMethod method() const { return method_; }
  // Not when alone.
  Communicator& ranks() const { return *group_; }
  // The cut of sequences of which every rank holds `own_length` tokens.
  SequenceCut cut(std::int64_t own_length) const;

 private:
  Communicator* group_ = nullptr;
  SequenceMethod method_ = SequenceMethod::kRing;
  Plant plant_ = Plant::kNone;
};

struct QueryKeyValue {
  at::Tensor q;  // [b, n, s, d]
  at::Tensor k;  // [b, k, s, d]
  at::Tensor v;  // [b, k, s, d]
};

// The output, and the way back, which holds what it needs.
struct Attended {
  at::Tensor out;  // [b, n, s, d], lying in memory as [b, s, n, d]
  std::function<AttentionGradients(const at::Tensor& d_out)> backward;
};

// Collective over the group, as is the way back.
Attended causal_attention(const QueryKeyValue& own,
                          double scale,
                          const SequenceGroup& group,
                          const Documents& documents = {});

}  // namespace llmtrain
