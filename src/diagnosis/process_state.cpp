#include "llmtrain/diagnosis/process_state.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/cgroup_lines.hpp"
#include "llmtrain/core/unique_fd.hpp"

namespace llmtrain {
namespace {

// The first 8 KiB; empty when it cannot be read. O_NONBLOCK: nothing under these roots may hold us up.
std::string read_start(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return {};
  std::array<char, 8192> buffer;
  std::size_t size = 0;
  while (size < buffer.size()) {
    const ssize_t n = read(fd.get(), buffer.data() + size, buffer.size() - size);
    if (n <= 0) break;
    size += static_cast<std::size_t>(n);
  }
  return {buffer.data(), size};
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::optional<std::uint64_t> counter_in(const std::string& path) {
  const std::string text = read_start(path);
  constexpr std::string_view kName = "oom_kill ";
  for (const std::string_view line : lines_of(text)) {
    if (!line.starts_with(kName)) continue;
    std::uint64_t value = 0;
    const char* const end = line.data() + line.size();
    if (std::from_chars(line.data() + kName.size(), end, value).ec == std::errc{}) return value;
  }
  return std::nullopt;
}

// Whether it or a group above it is frozen. The state of the process does not tell: a frozen sleep looks like
// one.
bool in_frozen_cgroup(pid_t pid, const KernelRoots& roots) {
  const std::string text = read_start(fmt::format("{}/{}/cgroup", roots.proc, pid));
  for (const CgroupLine& line : cgroup_lines(text)) {
    if (line.has("freezer") && read_start(roots.cgroup + "/freezer" + line.path + "/freezer.state")
                                   .starts_with("FR"))  // FREEZING, FROZEN
      return true;
    if (!line.is_version_2()) continue;
    for (const std::string& mount : {roots.cgroup, roots.cgroup + "/unified"})
      if (read_start(mount + line.path + "/cgroup.events").find("frozen 1") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

ProcessState process_state(pid_t pid, const KernelRoots& roots) {
  ProcessState found;
  const std::string stat = read_start(fmt::format("{}/{}/stat", roots.proc, pid));
  // "pid (name) state ...", and a name may hold anything, brackets too.
  const auto name_end = stat.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return found;
  const char state = stat[name_end + 2];
  if (std::isalpha(static_cast<unsigned char>(state)) == 0) return found;
  found.state = std::string(1, state);
  if (in_frozen_cgroup(pid, roots)) {
    found.wait_channel = kFrozenChannel;
    return found;
  }
  const std::string channel = read_start(fmt::format("{}/{}/wchan", roots.proc, pid)).substr(0, 64);
  const auto is_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; };
  if (channel != "0" && std::all_of(channel.begin(), channel.end(), is_name)) found.wait_channel = channel;
  return found;
}

std::optional<MemoryCounter> memory_counter(pid_t pid, const KernelRoots& roots) {
  const std::string text = read_start(fmt::format("{}/{}/cgroup", roots.proc, pid));
  for (const CgroupLine& line : cgroup_lines(text)) {
    const bool memory = line.has("memory");
    if (!memory && !line.is_version_2()) continue;
    const std::string mount = memory ? roots.cgroup + "/memory" : roots.cgroup;
    const std::string file = memory ? "/memory.oom_control" : "/memory.events";
    // In a container the path can be the host's, while the mount shows our own cgroup as its root.
    for (const std::string& folder : {mount + line.path, mount})
      if (counter_in(folder + file)) return MemoryCounter{folder + file, text};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> oom_kills(const MemoryCounter& counter) {
  return counter_in(counter.path);
}

}  // namespace llmtrain
