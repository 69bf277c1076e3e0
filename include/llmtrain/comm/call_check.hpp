#pragma once

#include <memory>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/monitor/black_box.hpp"

// A decorator for debugging: before each collective, all ranks compare what they are about to call.
//
// A different operation, element type, shape, reduction or root is a CommError on every rank that
// names both calls, and the phase of a step that each comes from. It costs one small all_gather a call. A
// message is announced by a small one ahead of it: what differs from what the receiver expects is a CommError
// there that names both. A rank that sends where its peer calls a collective is not seen; it ends by the
// deadline.
namespace llmtrain {

// `global_ranks`: of the group, in order, for messages. `device`: of the tensors that `inner` can move.
// `black_box`: where this rank says what it is at; may be null, and must outlive the communicator.
std::unique_ptr<Communicator> make_checked_communicator(std::unique_ptr<Communicator> inner,
                                                        std::vector<int> global_ranks,
                                                        at::Device device = at::kCPU,
                                                        const BlackBox* black_box = nullptr);

}  // namespace llmtrain
