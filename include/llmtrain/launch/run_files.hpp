#pragma once

#include <optional>
#include <string>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/instant.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/job/run_dir.hpp"

// What a launch does to its run directory before and between incarnations; see DESIGN 12 for the layout.
namespace llmtrain {

// Makes the directory and its `control/`; nothing else is touched. Storage errors name the path.
Status make_run_directory(FileSystem& files, const RunDir& run);

// Whether bytes can be written there: writes, syncs and removes a small file called `probe`.
Status check_writable(FileSystem& files, const RunDir& run, const std::string& probe = "probe");

// Whether some launch has worked here: a spec, a metrics file or a checkpoint lies in it.
Result<bool> is_used(FileSystem& files, const RunDir& run);

// One more than the newest incarnation that left a trace here; 0 in a fresh directory.
Result<int> next_incarnation(FileSystem& files, const RunDir& run);
// One more than the newest incident; 0 when there is none.
Result<int> next_incident(FileSystem& files, const RunDir& run);

// The longest of the newest saves that the run's events tell of; absent: they tell of none.
std::optional<Milliseconds> longest_save(FileSystem& files, const RunDir& run);

// For people who look for logs: where this launch puts them, when that is not logs/ of the run directory.
Status write_log_place(FileSystem& files, const RunDir& run, const std::optional<std::string>& directory);

// spec.source.yaml: what the user wrote, merged and with overrides.
Status write_source_spec(FileSystem& files, const RunDir& run, const std::string& yaml);
// spec-<incarnation>.yaml, and spec.yaml: what is asked for, when the incarnation runs on fewer nodes.
Status write_resolved_spec(FileSystem& files,
                           const RunDir& run,
                           int incarnation,
                           const std::string& yaml,
                           const std::string& asked_for);

}  // namespace llmtrain
