#include "llmtrain/core/system_limits.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include <string.h>
#include <sys/resource.h>

#include <fmt/format.h>

#include "llmtrain/core/cgroup_limit.hpp"

namespace llmtrain {
namespace {

constexpr double kMiB = 1 << 20;

std::string text_of(rlim_t value) {
  return value == RLIM_INFINITY ? "no limit" : std::to_string(value);
}

std::string slurp(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

rlimit limit_of(__rlimit_resource resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return limit;
}

std::string open_files() {
  const rlimit limit = limit_of(RLIMIT_NOFILE);
  return fmt::format(
      "a process may have {} open files here, and at most {}: raise the limit (ulimit -n) where this "
      "is started, or put fewer workers on a node",
      text_of(limit.rlim_cur),
      text_of(limit.rlim_max));
}

std::string processes() {
  std::string text = fmt::format("a user may have {} processes and threads here (ulimit -u)",
                                 text_of(limit_of(RLIMIT_NPROC).rlim_cur));
  const CgroupLimit group = cgroup_process_limit(slurp("/proc/self/cgroup"), "/sys/fs/cgroup");
  if (group.value != CgroupLimit::kNone)
    text += fmt::format(", and cgroup {} allows {} (pids.max)", group.group, group.value);
  return text + ": raise the limit, or put fewer workers on a node";
}

std::string memory() {
  const CgroupLimit group = cgroup_memory_limit(slurp("/proc/self/cgroup"), "/sys/fs/cgroup");
  if (group.value == CgroupLimit::kNone) return "the host has no more memory, or `ulimit -v` is too small";
  return fmt::format("cgroup {} allows {:.0f} MiB of memory: raise the limit",
                     group.group,
                     static_cast<double>(group.value) / kMiB);
}

// EAGAIN has two meanings: nothing is there to be read yet, and no thread or process can be made. The second
// is told by the words around it, or by none at all: that is all std::thread says.
bool tells_of_no_thread(std::string_view line) {
  const auto at = line.find(::strerrordesc_np(EAGAIN));
  if (at == std::string_view::npos) return false;
  const std::string_view before = line.substr(0, at);
  for (const char* word : {"thread", "Thread", "fork", "clone", "process", "spawn"})
    if (before.find(word) != std::string_view::npos) return true;
  const auto last = before.find_last_not_of(" :");
  if (last == std::string_view::npos) return true;
  const std::string_view who = before.substr(0, last + 1);
  return who.ends_with("what()") || who.ends_with("says");  // "gloo says: ..."
}

}  // namespace

std::string limit_behind(int error) {
  switch (error) {
    case EMFILE: return open_files();
    case ENFILE: return "the host has no more open files: raise fs.file-max (sysctl)";
    case EAGAIN: return processes();
    case ENOMEM: return memory();
    case ENOSPC: return "shared memory or its file system is full: make /dev/shm larger";
    case EFBIG:
      return fmt::format("a file may have {} bytes here: raise the limit (ulimit -f)",
                         text_of(limit_of(RLIMIT_FSIZE).rlim_cur));
    case EPERM:
    case EACCES:
      return "the system does not permit it: look at the container's seccomp profile, its capabilities, and "
             "the user";
    default: return {};
  }
}

std::string limit_in_words(std::string_view words) {
  while (!words.empty()) {
    const std::string_view line = words.substr(0, words.find('\n'));
    words.remove_prefix(std::min(line.size() + 1, words.size()));
    for (const int error : {EMFILE, ENFILE})
      if (line.find(::strerrordesc_np(error)) != std::string_view::npos) return limit_behind(error);
    if (tells_of_no_thread(line)) return limit_behind(EAGAIN);
  }
  return {};
}

Error system_error(ErrorCode code, const std::string& what, int error) {
  return {code, fmt::format("{}: {}", what, ::strerrordesc_np(error)), limit_behind(error)};
}

Error system_error(ErrorCode code, const std::string& what) {
  return system_error(code, what, errno);
}

}  // namespace llmtrain
