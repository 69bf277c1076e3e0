#include "llmtrain/core/memory_limit.hpp"

#include <charconv>
#include <fstream>
#include <sstream>

namespace llmtrain {
namespace {

// "max", a number of bytes, or (version 1) a number near 2^63 for none. A host has no exabyte.
std::uint64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return MemoryLimit::kNone;
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
  if (parsed.ec != std::errc() || value >= 1ull << 60) return MemoryLimit::kNone;
  return value;
}

void walk_up(const std::string& mount, std::string group, const char* file, MemoryLimit& smallest) {
  while (true) {
    const std::uint64_t limit = limit_in(mount + group + "/" + file);
    if (limit < smallest.bytes) smallest = {limit, group.empty() ? "/" : group};
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

}  // namespace

MemoryLimit cgroup_memory_limit(const std::string& proc_cgroup, const std::string& mount) {
  MemoryLimit smallest;
  std::istringstream lines(proc_cgroup);
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      walk_up(mount, group, "memory.max", smallest);
      walk_up(mount + "/unified", group, "memory.max", smallest);
    } else if (controllers.find(",memory,") != std::string::npos) {
      walk_up(mount + "/memory", group, "memory.limit_in_bytes", smallest);
    }
  }
  return smallest;
}

}  // namespace llmtrain
