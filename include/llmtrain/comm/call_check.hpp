#pragma once

#include <memory>
#include <vector>

#include "llmtrain/comm/communicator.hpp"

// A decorator for debugging: before each collective, all ranks compare what they are about to call.
//
// A different operation, element type, shape, reduction or root is a CommError on every rank that
// names both calls. It costs one small all_gather a call. A message is announced by a small one ahead of
// it: what differs from what the receiver expects is a CommError there that names both. A rank that sends
// where its peer calls a collective is not seen; it ends by the deadline.
namespace llmtrain {

// `global_ranks`: of the group, in order, for messages. `device`: of the tensors that `inner` can move.
std::unique_ptr<Communicator> make_checked_communicator(std::unique_ptr<Communicator> inner,
                                                        std::vector<int> global_ranks,
                                                        at::Device device = at::kCPU);

}  // namespace llmtrain
