#include "llmtrain/core/cgroup_lines.hpp"

#include <algorithm>

namespace llmtrain {

bool CgroupLine::has(std::string_view controller) const {
  const std::string listed = "," + controllers + ",";
  return !controller.empty() && listed.find("," + std::string(controller) + ",") != std::string::npos;
}

std::vector<CgroupLine> cgroup_lines(std::string_view proc_cgroup) {
  std::vector<CgroupLine> found;
  while (!proc_cgroup.empty()) {
    const std::string_view line = proc_cgroup.substr(0, proc_cgroup.find('\n'));
    proc_cgroup.remove_prefix(std::min(line.size() + 1, proc_cgroup.size()));
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view path = line.substr(second + 1);
    const bool leads_out = path.find("..") != std::string_view::npos;
    found.push_back(
        {std::string(line.substr(first + 1, second - first - 1)), leads_out ? "/" : std::string(path)});
  }
  return found;
}

}  // namespace llmtrain
