#pragma once

#include <string>
#include <vector>

#include "llmtrain/comm/communicator.hpp"

// Byte strings of any length from all ranks to all ranks, in rank order: for records, not for tensors.
namespace llmtrain {

std::vector<std::string> all_gather_bytes(Communicator& group, const std::string& own);

}  // namespace llmtrain
