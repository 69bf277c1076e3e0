#pragma once

#include <string>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/monitor/events.hpp"

// Steps that metrics.jsonl lacks because the leader of their time stood still or was lost.
namespace llmtrain {

// Those of the checkpoint in `step_dir` (monitor/recent_steps.hpp) that come after the newest row of
// `metrics_path`, oldest first. A leader writes rows in order: what it missed is the end. Empty when the
// checkpoint holds none, as on one node.
Result<std::vector<Event>> find_missed_steps(FileSystem& files,
                                             const std::string& step_dir,
                                             const std::string& metrics_path);

}  // namespace llmtrain
