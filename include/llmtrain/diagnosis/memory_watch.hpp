#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <sys/types.h>

#include "llmtrain/core/cgroup_limit.hpp"
#include "llmtrain/diagnosis/process_state.hpp"

// Whether the kernel has killed for lack of memory where the processes of a node live.
//
// A group counts what is killed in it, and a dead process has no group any more: so the group of each one is
// noted while it lives. It names the limit that was hit as far as limits can be read, and kills nothing.
namespace llmtrain {

struct MemoryKills {
  std::uint64_t count = 0;
  CgroupLimit limit;  // the smallest above the group that counted; none: the host itself had no more
  friend bool operator==(const MemoryKills& a, const MemoryKills& b) {
    return a.count == b.count && a.limit.value == b.limit.value && a.limit.group == b.limit.group;
  }
};

class MemoryWatch {
 public:
  explicit MemoryWatch(KernelRoots roots = {}) : roots_(std::move(roots)) {}

  // Kills in the group of `pid` count from now on.
  void watch(pid_t pid);
  // Those since the last call.
  MemoryKills take();

 private:
  struct Group {
    std::uint64_t seen = 0;
    std::string proc_cgroup;  // of a process in it
  };
  KernelRoots roots_;
  std::map<std::string, Group> groups_;  // by the file that counts
};

}  // namespace llmtrain
