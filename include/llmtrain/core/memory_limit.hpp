#pragma once

#include <cstdint>
#include <string>

// How much memory the cgroups above a process allow. It reads limits and knows nothing of what is in use.
namespace llmtrain {

struct MemoryLimit {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t bytes = kNone;
  std::string group;  // that sets it
};

// The smallest limit from the memory cgroup that `proc_cgroup` (the text of /proc/<pid>/cgroup) names up to
// the root, version 1 or 2, under `mount`.
MemoryLimit cgroup_memory_limit(const std::string& proc_cgroup, const std::string& mount);

}  // namespace llmtrain
