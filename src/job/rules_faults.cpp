#include <fmt/format.h>

#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/spec/enum_names.hpp"

#include "rules.hpp"

namespace llmtrain {
namespace {

// Fields that only some kinds of faults read.
void check_parameters(Rules& rules, const FaultSpec& fault, const std::string& at) {
  const FaultKind kind = fault.kind;
  const bool jitter = kind == FaultKind::kJitter;
  const bool lasts = jitter || kind == FaultKind::kSleep || kind == FaultKind::kDropHeartbeats;
  if (lasts && fault.ms == 0)
    rules.error(at + ".ms", "missing; a sleep, jitter or silence needs its length in milliseconds");
  if (!lasts && fault.ms != 0)
    rules.warning(at + ".ms", "has no effect: only a sleep, jitter or silence has a length");
  const auto only = [&](const char* field, bool takes_part, const char* who) {
    if (!takes_part && rules.given(at + "." + field))
      rules.warning(at + "." + field, fmt::format("has no effect: only {} reads it", who));
  };
  only("seed", jitter, "jitter");
  only("code", kind == FaultKind::kExit, "exit");
  only("nth", kind == FaultKind::kIo, "io");
  only("error", kind == FaultKind::kIo, "io");
  only("mib", kind == FaultKind::kOom, "oom");
  // These have their place by what they are.
  const bool placeless = jitter || kind == FaultKind::kIo || kind == FaultKind::kDropHeartbeats;
  if (placeless && rules.given(at + ".point"))
    rules.warning(at + ".point", fmt::format("has no effect on the kind {}", name_of(kind)));
}

void check_step(Rules& rules, const FaultSpec& fault, const std::string& at) {
  if (fault.kind == FaultKind::kJitter && fault.step >= 0)
    rules.warning(at + ".step", "has no effect: a jitter is there at every step");
  if (fault.each == FaultEach::kStep && fault.step >= 0)
    rules.warning(at + ".each", "has no effect: the fault names one step");
}

}  // namespace

void check_faults(Rules& rules) {
  const auto& faults = rules.spec.faults;
  const bool planned = rules.usable({"parallelism", "launch"});
  const RunPlan plan = planned ? plan_run(rules.spec) : RunPlan{.world_size = 1 << 30, .nodes = 1 << 30};
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const std::string at = fmt::format("faults[{}]", i);
    if (!rules.usable({at.c_str()})) continue;
    const bool of_node = faults[i].kind == FaultKind::kDropHeartbeats;
    const int count = of_node ? plan.nodes : plan.world_size;
    if (faults[i].rank >= count)
      rules.error(at + ".rank",
                  fmt::format("= {}: the job has {} {}; allowed: 0 to {}, or -1 for all",
                              faults[i].rank,
                              count,
                              of_node ? "nodes" : "ranks",
                              count - 1));
    check_parameters(rules, faults[i], at);
    check_step(rules, faults[i], at);
  }
}

}  // namespace llmtrain
