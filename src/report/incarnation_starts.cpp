#include <charconv>
#include <filesystem>
#include <string>

#include <sys/stat.h>

#include "llmtrain/report/run_history.hpp"

namespace llmtrain {

std::map<int, double> incarnation_starts(const RunDir& run) {
  std::map<int, double> starts;
  std::error_code error;
  for (std::filesystem::directory_iterator it(run.root(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("spec-") || !name.ends_with(".yaml") || name.size() < 11) continue;
    int number = 0;
    const char* const last = name.data() + name.size() - 5;
    const auto parsed = std::from_chars(name.data() + 5, last, number);
    if (parsed.ec != std::errc() || parsed.ptr != last) continue;
    struct stat info {};
    if (::stat(it->path().c_str(), &info) == 0)
      starts[number] =
          static_cast<double>(info.st_mtim.tv_sec) + static_cast<double>(info.st_mtim.tv_nsec) / 1e9;
  }
  return starts;
}

}  // namespace llmtrain
