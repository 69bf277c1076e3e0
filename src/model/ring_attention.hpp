#pragma once

#include "llmtrain/model/sequence_attention.hpp"

// Ring attention: keys and values travel around the ranks, one block in flight while another is computed.
//
// Sequences are cut in the balanced way: of another rank's block either its early half is seen by all own
// queries, or all of it by the late half of them. Forward merges blocks by their log-sum-exp; backward
// computes each block again from the merged one, and the gradients of a block travel behind it until they
// are home. A rank holds two blocks and the gradients of two at most, whatever the length.
namespace llmtrain {

Attended ring_attention(const QueryKeyValue& own,
                        double scale,
                        Communicator& ring,
                        const Documents& documents);

}  // namespace llmtrain
