#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/spec/scalars.hpp"

#include "rules.hpp"

namespace llmtrain {
namespace {

bool is_name(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= 256 && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

void check_layout(Rules& rules) {
  check_tensor(rules);
  check_sequence(rules);
  check_zero(rules);
  check_pipeline(rules);
  const LaunchSpec& launch = rules.spec.launch;
  if (launch.nodes != 1)
    rules.error(
        "launch.nodes",
        fmt::format("= {}: jobs over several nodes are not in this version; allowed: 1", launch.nodes));
  for (const auto& [name, value] : launch.env)
    if (!is_name(name))
      rules.error(
          "launch.env",
          fmt::format("\"{}\" is no name of an environment variable; allowed: letters, digits and _", name));
}

void check_run(Rules& rules, bool cuda_available) {
  const RunSpec& run = rules.spec.run;
  const auto unprintable = [](const std::string& text) {
    return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  };
  if (run.name.empty() || run.name == "." || run.name == ".." || run.name.size() > 200 ||
      run.name.find('/') != std::string::npos || unprintable(run.name))
    rules.error(
        "run.name",
        fmt::format("= \"{}\": names a directory; allowed: 1 to 200 characters without `/`, not `.` or `..`",
                    run.name.substr(0, 60)));
  if (!is_utf8(run.dir)) {
    rules.error("run.dir", "is not UTF-8 text; specs can hold no other paths");
  } else if (run.dir.empty() || unprintable(run.dir)) {
    rules.error("run.dir",
                fmt::format("= \"{}\": allowed: a path without control characters", run.dir.substr(0, 60)));
  }
  if (run.device == Device::kCuda && !cuda_available)
    rules.error("run.device",
                "= cuda: this build has no CUDA engine, or this host no device; allowed: cpu, auto");
}

}  // namespace llmtrain
