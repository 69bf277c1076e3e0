#include "group_factory.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/comm/call_check.hpp"
#include "llmtrain/core/check.hpp"
#include "llmtrain/shm/group.hpp"
#include "llmtrain/shm/progress_engine.hpp"

namespace llmtrain {
namespace {

int position_of(int rank, const std::vector<int>& members) {
  const auto it = std::find(members.begin(), members.end(), rank);
  LLMTRAIN_CHECK(it != members.end(), "rank {} makes a group that it is not in", rank);
  return static_cast<int>(it - members.begin());
}

}  // namespace

GroupFactory::GroupFactory(const MeshCommsOptions& options, std::shared_ptr<CommTrace> trace)
    : options_(options), trace_(std::move(trace)), engine_(std::make_shared<ProgressEngine>()) {
  const auto world = static_cast<std::size_t>(options_.shape.world_size());
  LLMTRAIN_CHECK(options_.host_of_rank.empty() || options_.host_of_rank.size() == world,
                 "hosts of {} ranks in a job of {}",
                 options_.host_of_rank.size(),
                 world);
}

std::unique_ptr<Communicator> GroupFactory::make(const Group& group) const {
  if (group.members.size() == 1) return make_solo_communicator(group.name);
  auto communicator = connect(group);
  if (options_.check_calls)
    communicator = make_checked_communicator(
        std::move(communicator), group.members, options_.cuda ? at::kCUDA : at::kCPU, options_.black_box);
  if (options_.trace) communicator = make_traced_communicator(std::move(communicator), trace_);
  // Outermost: what it leaves out was never called.
  if (options_.call_faults != nullptr)
    communicator = make_erring_communicator(std::move(communicator), options_.call_faults);
  return communicator;
}

std::unique_ptr<Communicator> GroupFactory::connect(const Group& group) const {
  if (options_.cuda) return make_remote(group);
  const bool one_host = std::all_of(group.members.begin(), group.members.end(), [&](int member) {
    return host_of(member) == host_of(group.members.front());
  });
  if (one_host) return make_local(group);
  const int per_host = members_per_host(group.members);
  return per_host > 1 ? make_two_levels(group, per_host) : make_remote(group);
}

std::unique_ptr<Communicator> GroupFactory::make_local(const Group& group) const {
  LLMTRAIN_CHECK(
      options_.region != nullptr, "{} ranks of one host and no shared memory", group.members.size());
  ShmGroupOptions options;
  options.name = group.name;
  options.slot = group.slot;
  for (const int member : group.members) options.members.push_back(local_rank(member));
  options.global_ranks = group.members;
  options.rank = position_of(options_.global_rank, group.members);
  options.timeout = options_.timeout;
  options.jitter = options_.jitter;
  return make_shm_communicator(options_.region, options, engine_of(group));
}

std::unique_ptr<Communicator> GroupFactory::make_remote(const Group& group) const {
  LLMTRAIN_CHECK(
      options_.store != nullptr, "{} ranks and no store through which they meet", group.members.size());
  const RemoteGroupOptions options{.name = group.name,
                                   .members = group.members,
                                   .rank = position_of(options_.global_rank, group.members),
                                   .timeout = options_.timeout,
                                   .address = options_.address,
                                   .jitter = options_.jitter,
                                   .lanes = group.messages};
  return options_.cuda ? make_nccl_communicator(options_.store, options)
                       : make_gloo_communicator(options_.store, options, engine_of(group));
}

std::unique_ptr<Communicator> GroupFactory::make_two_levels(const Group& group, int per_host) const {
  const int rank = position_of(options_.global_rank, group.members);
  Group here{.name = group.name, .slot = group.slot, .members = {}, .engine = group.engine};
  const std::string across_name = std::string(group.name) + ".across";
  Group across{.name = across_name.c_str(), .slot = group.slot, .members = {}, .engine = group.engine};
  for (int member = 0; member < static_cast<int>(group.members.size()); ++member) {
    const int global_rank = group.members[static_cast<std::size_t>(member)];
    if (member / per_host == rank / per_host) here.members.push_back(global_rank);
    if (member % per_host == rank % per_host) across.members.push_back(global_rank);
  }
  auto local = make_local(here);
  auto between = make_remote(across);
  return make_hierarchical_communicator(
      std::move(local), std::move(between), make_remote(group), engine_of(group));
}

const std::shared_ptr<ProgressEngine>& GroupFactory::engine_of(const Group& group) const {
  return group.engine != nullptr ? group.engine : engine_;
}

int GroupFactory::host_of(int global_rank) const {
  return options_.host_of_rank.empty() ? 0 : options_.host_of_rank[static_cast<std::size_t>(global_rank)];
}

int GroupFactory::local_rank(int global_rank) const {
  int before = 0;
  for (int rank = 0; rank < global_rank; ++rank) before += host_of(rank) == host_of(global_rank);
  return before;
}

int GroupFactory::local_ranks() const {
  int count = 0;
  for (int rank = 0; rank < options_.shape.world_size(); ++rank)
    count += host_of(rank) == host_of(options_.global_rank);
  return count;
}

int GroupFactory::members_per_host(const std::vector<int>& members) const {
  const auto count = static_cast<int>(members.size());
  int first = 0;
  while (first < count && host_of(members[static_cast<std::size_t>(first)]) == host_of(members.front()))
    ++first;
  if (count % first != 0) return 1;
  std::vector<int> hosts;  // one for each block
  for (int member = 0; member < count; ++member) {
    const int host = host_of(members[static_cast<std::size_t>(member)]);
    if (member % first == 0) {
      if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) return 1;
      hosts.push_back(host);
    } else if (host != hosts.back()) {
      return 1;
    }
  }
  return first;
}

}  // namespace llmtrain
