#include "llmtrain/core/cgroup_limit.hpp"

#include <charconv>
#include <fstream>

#include "llmtrain/core/cgroup_lines.hpp"

namespace llmtrain {
namespace {

// "max", a number of bytes, or (version 1) a number near 2^63 for none. A host has no exabyte.
std::uint64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return CgroupLimit::kNone;
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
  if (parsed.ec != std::errc() || value >= 1ull << 60) return CgroupLimit::kNone;
  return value;
}

void walk_up(const std::string& mount, std::string group, const char* file, CgroupLimit& smallest) {
  while (true) {
    const std::uint64_t limit = limit_in(mount + group + "/" + file);
    if (limit < smallest.value) smallest = {limit, group.empty() ? "/" : group};
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

// `controller` with the names of its file in version 1 and 2.
CgroupLimit smallest_limit(const std::string& proc_cgroup,
                           const std::string& mount,
                           const std::string& controller,
                           const char* file_1,
                           const char* file_2) {
  CgroupLimit smallest;
  for (const CgroupLine& line : cgroup_lines(proc_cgroup)) {
    const std::string group = line.path == "/" ? "" : line.path;
    if (line.is_version_2()) {
      walk_up(mount, group, file_2, smallest);
      walk_up(mount + "/unified", group, file_2, smallest);
    } else if (line.has(controller)) {
      walk_up(mount + "/" + controller, group, file_1, smallest);
    }
  }
  return smallest;
}

}  // namespace

CgroupLimit cgroup_memory_limit(const std::string& proc_cgroup, const std::string& mount) {
  return smallest_limit(proc_cgroup, mount, "memory", "memory.limit_in_bytes", "memory.max");
}

CgroupLimit cgroup_process_limit(const std::string& proc_cgroup, const std::string& mount) {
  return smallest_limit(proc_cgroup, mount, "pids", "pids.max", "pids.max");
}

}  // namespace llmtrain
