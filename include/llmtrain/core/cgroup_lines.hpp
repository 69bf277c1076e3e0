#pragma once

#include <string>
#include <string_view>
#include <vector>

// What /proc/<pid>/cgroup says: in which control groups a process is.
namespace llmtrain {

// One line of it: "4:cpu,cpuacct:/path" of version 1, or "0::/path" of version 2.
struct CgroupLine {
  std::string controllers;  // "cpu,cpuacct"; empty: the hierarchy of version 2
  std::string path;         // from the root of its hierarchy; "/" there

  bool is_version_2() const { return controllers.empty(); }
  bool has(std::string_view controller) const;
};

// Lines that are none are passed over. A path that leads out of what the mount shows ("/../..", as containers
// have it) counts as its root.
std::vector<CgroupLine> cgroup_lines(std::string_view proc_cgroup);

}  // namespace llmtrain
