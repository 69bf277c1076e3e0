#pragma once

#include "llmtrain/model/sequence_attention.hpp"

// Ulysses: before attention ranks change over from some tokens of every head to every token of some heads,
// and back after it; attention itself is that of one rank.
//
// Sequences are cut straight. Query heads must divide over the ranks. Key/value heads are divided too, or,
// where there are fewer of them than ranks, go to every rank whose query heads use them.
namespace llmtrain {

Attended ulysses_attention(const QueryKeyValue& own,
                           double scale,
                           Communicator& group,
                           const Documents& documents);

}  // namespace llmtrain
