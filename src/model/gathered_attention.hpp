#pragma once

#include "llmtrain/model/sequence_attention.hpp"

// The simplest exact method: every rank gathers the keys and values of the whole sequence, forward and again
// backward, and the gradients that ranks have of them are scattered sums.
//
// Sequences are cut straight: own queries see the keys of all ranks before, whole, and their own causally.
// Later ranks compute more, and keys and values of a whole sequence exist on every rank for a while.
namespace llmtrain {

Attended gathered_attention(const QueryKeyValue& own,
                            double scale,
                            Communicator& group,
                            const Documents& documents);

}  // namespace llmtrain
