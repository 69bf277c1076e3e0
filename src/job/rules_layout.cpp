#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/spec/scalars.hpp"

#include "rules.hpp"

namespace llmtrain {

void check_layout(Rules& rules) {
  check_tensor(rules);
  check_sequence(rules);
  check_zero(rules);
  check_pipeline(rules);
  check_launch(rules);
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
