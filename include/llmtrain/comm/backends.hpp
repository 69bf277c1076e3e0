#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llmtrain/comm/communicator.hpp"

// The transports behind Communicator, one factory each; what they share is the contract alone.
namespace llmtrain {

class ProgressEngine;
class Store;
class ShmRegion;
struct ShmGroupOptions;

// A group of one: every verb is the identity, send and recv are broken invariants.
std::unique_ptr<Communicator> make_solo_communicator(std::string name);

// CPU tensors of ranks on one node, through a region that their agent made. Asynchronous verbs run on
// `engine`; all communicators of a rank share one, so that their order is the same on all ranks.
std::unique_ptr<Communicator> make_shm_communicator(std::shared_ptr<ShmRegion> region,
                                                    const ShmGroupOptions& options,
                                                    std::shared_ptr<ProgressEngine> engine);

// A group that is connected by addresses, which its ranks leave in a store.
struct RemoteGroupOptions {
  std::string name;          // "dp": for messages, and with `members` for the keys in the store
  std::vector<int> members;  // global ranks, in group order
  int rank = 0;              // own position in `members`
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  // of one wait, and of the connection
  std::string address;           // under which other hosts reach this one; empty: what its host name means
  std::function<void()> jitter;  // called before waits, by any thread; may be null
  // NCCL: neighbours in the ring of ranks get a channel for each direction, so that a message there waits
  // for no other. Without it messages take their turn among all that the group does.
  bool lanes = false;
};

// CPU tensors of ranks on any hosts, over TCP. Sums are those of make_shm_communicator, bit for bit: ranks
// exchange parts, and each part is added up in rank order by one of them. Throws CommError if members do not
// come.
std::unique_ptr<Communicator> make_gloo_communicator(const std::shared_ptr<Store>& store,
                                                     const RemoteGroupOptions& options,
                                                     std::shared_ptr<ProgressEngine> engine);

// Ranks of several hosts, as many on each: what ranks of one host have in common crosses the network once.
//
// `local` are the ranks of this host, `across` those with the same position on every host, `all` both, host
// by host. Sums go over the ranks of a host first and then over hosts: bit-equal on every rank and in every
// run, but not those of another arrangement. bf16 and fp16 are widened to fp32 on the way.
std::unique_ptr<Communicator> make_hierarchical_communicator(std::unique_ptr<Communicator> local,
                                                             std::unique_ptr<Communicator> across,
                                                             std::unique_ptr<Communicator> all,
                                                             std::shared_ptr<ProgressEngine> engine);

// CUDA tensors, through NCCL, on a stream of its own. Only the CUDA engine has it; elsewhere it throws.
// Verbs follow what the current stream has to do before them, and wait() makes the current stream follow
// them; neither holds up the host. A call that is not done by its deadline is aborted, and the next verb or
// wait throws. Sums are bit-equal on every rank; their order is NCCL's, and bf16 and fp16 are rounded at
// every hop. Throws CommError if members do not come.
std::unique_ptr<Communicator> make_nccl_communicator(const std::shared_ptr<Store>& store,
                                                     const RemoteGroupOptions& options);

}  // namespace llmtrain
