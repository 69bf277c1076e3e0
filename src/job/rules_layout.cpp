#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/spec/enum_names.hpp"
#include "llmtrain/spec/scalars.hpp"

#include "rules.hpp"

namespace llmtrain {
namespace {

// Degrees that exist in the format from the start and work later.
void check_degree(Rules& rules, const char* path, int degree, const char* what) {
  if (degree != 1)
    rules.error(
        path,
        fmt::format(
            "= {}: {} is not in this version; allowed: 1 (parallelism.dp spreads the batch over ranks)",
            degree,
            what));
}

std::vector<int> divisors_of(int n) {
  std::vector<int> divisors;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) divisors.push_back(d);
  return divisors;
}

void check_shard(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  if (!p.dp_shard || !rules.usable({"parallelism", "launch"})) return;
  const int group = p.dp.value_or(1) * p.sp;
  if (p.zero_stage == 0)
    rules.warning("parallelism.dp_shard", "has no effect: parallelism.zero_stage is 0, nothing is sharded");
  else if (group % *p.dp_shard != 0)
    rules.error("parallelism.dp_shard",
                fmt::format("= {}: does not divide parallelism.dp = {}; allowed: {}, or auto",
                            *p.dp_shard,
                            group,
                            fmt::join(divisors_of(group), ", ")));
  else if (*p.dp_shard == 1 && group > 1)
    rules.warning("parallelism.zero_stage",
                  "has no effect: parallelism.dp_shard is 1, every rank has a copy");
}

void check_zero(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  if (p.zero_stage == 0 || !rules.usable({"parallelism.zero_stage", "parallelism.dp", "parallelism.sp"}))
    return;
  if (p.dp.value_or(1) * p.sp == 1)
    rules.warning("parallelism.zero_stage",
                  "has no effect: parallelism.dp is 1, nobody is there to share with");
}

bool is_name(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= 256 && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

void check_layout(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  check_tensor(rules);
  check_zero(rules);
  check_shard(rules);
  check_degree(rules, "parallelism.pp", p.pp, "pipeline parallelism");
  check_sequence(rules);
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
