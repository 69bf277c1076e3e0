#pragma once

#include <memory>
#include <vector>

#include "llmtrain/comm/communicator.hpp"

// A decorator for debugging: before each collective, all ranks compare what they are about to call.
//
// A different operation, element type, shape, reduction or root is a CommError on every rank that
// names both calls. It costs one small all_gather a call. send and recv pass through unchecked: only
// two ranks know of them.
namespace llmtrain {

// `global_ranks`: of the group, in order, for messages.
std::unique_ptr<Communicator> make_checked_communicator(std::unique_ptr<Communicator> inner,
                                                        std::vector<int> global_ranks);

}  // namespace llmtrain
