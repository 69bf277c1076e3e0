#pragma once

#include <memory>
#include <string>

#include "llmtrain/comm/communicator.hpp"

// The transports behind Communicator, one factory each; what they share is the contract alone.
namespace llmtrain {

class ProgressEngine;
class ShmRegion;
struct ShmGroupOptions;

// A group of one: every verb is the identity, send and recv are broken invariants.
std::unique_ptr<Communicator> make_solo_communicator(std::string name);

// CPU tensors of ranks on one node, through a region that their agent made. Asynchronous verbs run on
// `engine`; all communicators of a rank share one, so that their order is the same on all ranks.
std::unique_ptr<Communicator> make_shm_communicator(std::shared_ptr<ShmRegion> region,
                                                    const ShmGroupOptions& options,
                                                    std::shared_ptr<ProgressEngine> engine);

}  // namespace llmtrain
