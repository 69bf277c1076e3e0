#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

// What the kernel says of a process and of its memory cgroup. Every read is bounded and may fail: what is not
// known is empty, because a diagnosis must not fail for lack of a detail.
namespace llmtrain {

struct KernelRoots {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// Its cgroup, or one above it, is frozen (version 1 or 2): it does nothing, whatever its state says.
inline constexpr std::string_view kFrozenChannel = "frozen_cgroup";

struct ProcessState {
  std::string state;  // "R", "S", "D", "T", "t", "Z"; empty: there is no such process
  // The kernel function in which it sleeps, or kFrozenChannel; empty: it does not, or we may not know.
  std::string wait_channel;
};
ProcessState process_state(pid_t pid, const KernelRoots& roots = {});

// Where the memory cgroup (version 1 or 2) of process `pid` counts the processes that the kernel kills in it.
struct MemoryCounter {
  std::string path;
  std::string proc_cgroup;  // the text of /proc/<pid>/cgroup
};
std::optional<MemoryCounter> memory_counter(pid_t pid, const KernelRoots& roots = {});
// Kills for lack of memory, so far. Read it before and after an incarnation: the difference is what counts.
std::optional<std::uint64_t> oom_kills(const MemoryCounter& counter);

}  // namespace llmtrain
