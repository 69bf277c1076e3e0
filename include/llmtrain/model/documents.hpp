#pragma once

#include <cstdint>
#include <vector>

// Where documents begin in the sequences of a micro-batch, for attention that stays inside them.
//
// Positions are those of whole sequences, also where ranks hold a part of each: every rank of an sp group
// knows all of them, so that nothing has to be sent.
namespace llmtrain {

struct Documents {
  std::vector<std::vector<std::int64_t>> begins;  // by sequence, ascending, the first is 0; none: no mask

  bool mask() const { return !begins.empty(); }
};

}  // namespace llmtrain
