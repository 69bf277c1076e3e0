#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

// What a host is and allows, as values. Reading them is one thing (read_host.hpp), judging them another
// (judge.hpp): tests judge hosts that do not exist.
namespace llmtrain {

inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

struct EngineFacts {
  std::string device;   // "cpu", "cuda"
  std::string path;     // empty: not found
  std::string problem;  // why it cannot be used; empty: it was opened
};

struct RunDirFacts {
  std::string path;
  std::string probed;   // the directory itself, or the nearest one above it that exists
  std::string problem;  // why nothing can be written there; empty: it can
  std::uint64_t free_bytes = 0;
};

struct HostFacts {
  std::string host_name;
  std::vector<std::string> addresses;  // that the name resolves to
  std::string resolve_problem;

  int cpus = 1;  // that this process may use
  std::string cpu_model;
  std::vector<std::string> cpu_features;  // "avx2", "avx512f", "amx_bf16", ... of those that matter
  int numa_nodes = 1;
  std::string huge_pages;  // "always", "madvise", "never"; empty: not known

  std::uint64_t memory_total = 0;
  std::uint64_t memory_available = 0;
  std::uint64_t cgroup_memory = kNoLimit;  // the smallest limit of the hierarchy
  std::string cgroup;                      // the group that sets it
  std::optional<std::uint64_t> shm_bytes;  // size of /dev/shm; absent: there is none

  std::uint64_t max_open_files = kNoLimit;
  std::uint64_t max_open_files_hard = kNoLimit;
  std::uint64_t max_processes = kNoLimit;
  std::uint64_t max_locked_memory = kNoLimit;

  std::optional<bool> clock_synchronized;  // absent: the system does not tell
  std::string port_problem;                // no port could be opened; empty: one could
  int ephemeral_ports = 0;                 // 0: not known

  int nvidia_devices = 0;
  std::string driver;          // version; empty: none
  std::string driver_problem;  // of a driver that is there and does not answer

  std::vector<EngineFacts> engines;
  std::optional<RunDirFacts> run_dir;
};

}  // namespace llmtrain
