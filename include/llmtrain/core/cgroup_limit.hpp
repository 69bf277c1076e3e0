#pragma once

#include <cstdint>
#include <string>

// How much the cgroups above a process allow it. Limits are read here, and not what is in use.
namespace llmtrain {

struct CgroupLimit {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t value = kNone;
  std::string group;  // that sets it
};

// The smallest limit from the cgroup that `proc_cgroup` (the text of /proc/<pid>/cgroup) names up to the
// root, version 1 or 2, under `mount`: bytes of memory, or processes and threads.
CgroupLimit cgroup_memory_limit(const std::string& proc_cgroup, const std::string& mount);
CgroupLimit cgroup_process_limit(const std::string& proc_cgroup, const std::string& mount);

}  // namespace llmtrain
