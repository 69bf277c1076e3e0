#pragma once

#include <memory>
#include <vector>

#include "llmtrain/comm/mesh_comms.hpp"

// Which transport the ranks of a group get: NCCL on GPUs; on CPUs shared memory inside a host, Gloo between
// hosts, and both in two levels where a group has several ranks on each of several hosts.
namespace llmtrain {

class ProgressEngine;

class GroupFactory {
 public:
  GroupFactory(const MeshCommsOptions& options, std::shared_ptr<CommTrace> trace);

  struct Group {
    const char* name = "";
    int slot = 0;                              // of shared memory; one for each name
    std::vector<int> members;                  // global ranks, ascending
    bool messages = false;                     // neighbours exchange them while they also wait for each other
    std::shared_ptr<ProgressEngine> engine{};  // null: the one that groups share, one call behind the other
  };
  // All ranks make their groups in one order. A group of one is solo.
  std::unique_ptr<Communicator> make(const Group& group) const;

  // Position of a rank among those of its host.
  int local_rank(int global_rank) const;
  int local_ranks() const;  // on this host

 private:
  std::unique_ptr<Communicator> connect(const Group& group) const;
  std::unique_ptr<Communicator> make_local(const Group& group) const;
  std::unique_ptr<Communicator> make_remote(const Group& group) const;
  std::unique_ptr<Communicator> make_two_levels(const Group& group, int per_host) const;
  const std::shared_ptr<ProgressEngine>& engine_of(const Group& group) const;
  int host_of(int global_rank) const;
  // Members on every host, when they are as many on each and stand host by host; else 1.
  int members_per_host(const std::vector<int>& members) const;

  MeshCommsOptions options_;
  std::shared_ptr<CommTrace> trace_;
  std::shared_ptr<ProgressEngine> engine_;
};

}  // namespace llmtrain
