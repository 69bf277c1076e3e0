#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/doctor/host_facts.hpp"
#include "llmtrain/doctor/job_needs.hpp"

// Can this host run this job, or jobs at all? One check for each thing that has stopped runs before.
//
// Pure: facts and needs in, verdicts out. Without a job nothing that only a job can need is a failure.
namespace llmtrain {

enum class Health { kOk, kWarning, kFailed };
std::string_view to_string(Health health);  // "ok", "warning", "failed"

struct Check {
  std::string name;  // "memory", "open files", ...
  Health health = Health::kOk;
  std::string found;
  std::string advice;  // empty when it is well
};

std::vector<Check> judge(const HostFacts& facts, const std::optional<JobNeeds>& job);
bool healthy(const std::vector<Check>& checks);  // nothing failed

std::string doctor_text(const HostFacts& facts, const std::vector<Check>& checks);
std::string doctor_json(const HostFacts& facts, const std::vector<Check>& checks);

}  // namespace llmtrain
