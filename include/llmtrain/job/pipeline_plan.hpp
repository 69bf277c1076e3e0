#pragma once

#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/placement/stage_cut.hpp"
#include "llmtrain/schedule/schedule.hpp"
#include "llmtrain/spec/job_spec.hpp"

// The pipeline of a job: which segments each virtual stage holds, and in which order stages compute their
// micro-batches.
//
// A pure function of a resolved spec, the same on every rank; no file is read, since a resolved spec holds
// the text of a schedule file. It says nothing about messages, memory or time.
namespace llmtrain {

struct PipelinePlan {
  Schedule schedule;
  std::vector<SegmentRange> segments;  // by virtual stage
};

// `spec` is resolved and valid; an error says which rule it breaks. Without a pipeline (pp = 1) there is one
// stage with all segments, which runs F0 B0 F1 B1 ...
Result<PipelinePlan> plan_pipeline(const JobSpec& spec);

// The schedule alone. `name` is what messages call it when the spec holds its text.
Result<Schedule> plan_schedule(const JobSpec& spec, std::string_view name = "parallelism.schedule");

// Whether parallelism.schedule is the text of a .csv file, not a name or a path.
bool is_schedule_text(std::string_view schedule);

}  // namespace llmtrain
