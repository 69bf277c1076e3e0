#include "llmtrain/diagnosis/memory_watch.hpp"

#include <algorithm>

namespace llmtrain {
namespace {

constexpr std::size_t kMostGroups = 256;  // of one node's agent and workers: more is not ours
constexpr std::size_t kMostName = 256;

// It goes into messages and files as it is.
std::string printable(std::string name) {
  name.resize(std::min(name.size(), kMostName));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return name;
}

}  // namespace

void MemoryWatch::watch(pid_t pid) {
  const auto counter = memory_counter(pid, roots_);
  if (!counter || groups_.size() >= kMostGroups || groups_.contains(counter->path)) return;
  groups_[counter->path] = {oom_kills(*counter).value_or(0), counter->proc_cgroup};
}

MemoryKills MemoryWatch::take() {
  MemoryKills kills;
  for (auto& [path, group] : groups_) {
    const std::uint64_t now = oom_kills({path, {}}).value_or(group.seen);
    if (now > group.seen) {
      kills.count += now - group.seen;
      const CgroupLimit limit = cgroup_memory_limit(group.proc_cgroup, roots_.cgroup);
      if (limit.value < kills.limit.value) kills.limit = {limit.value, printable(limit.group)};
    }
    group.seen = now;
  }
  return kills;
}

}  // namespace llmtrain
