#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/spec/diagnostic.hpp"
#include "llmtrain/spec/job_spec.hpp"

// From job files to a final spec: parse, merge, override, interpolate, apply the preset, resolve, validate.
//
// Nothing here reads the environment, starts anything or needs libtorch: whatever depends on the
// machine comes in through JobSource.
namespace llmtrain {

// What to do about data files that do not exist.
enum class MissingData { kIgnore, kWarn, kRefuse };

// Everything that decides what a spec resolves to.
struct JobSource {
  std::vector<std::string> files;          // merged left to right
  std::vector<std::string> overrides;      // "a.b=c" of every --set, applied in order after the files
  std::map<std::string, std::string> env;  // what ${env:X} may refer to
  std::string home;                        // what a leading `~` of a path stands for; empty: not expanded
  std::optional<int> procs_per_node;       // --nproc-per-node: wins over launch.procs_per_node
  bool cuda_available = false;             // whether `device: cuda` can be honoured
  MissingData missing_data = MissingData::kWarn;
};

struct LoadedJob {
  JobSpec spec;  // resolved and valid: nothing left to decide
  std::string
      source_yaml;  // merged, with aliases renamed and overrides applied; not interpolated or resolved
  std::string resolved_yaml;  // `spec` as text; parse_resolved gives it back bit for bit
  std::vector<Diagnostic> warnings;
};

// The outcome with every violation, for commands that print them one by one.
struct JobReport {
  std::optional<LoadedJob> job;  // absent when there are errors
  std::vector<Diagnostic> diagnostics;
};

JobReport check_job(const JobSource& source);
// The same for one job file that is already in memory and called `name`; `source.files` is ignored.
JobReport check_job_text(const std::string& text, const std::string& name, const JobSource& source);

// The same as a Result; the error names every violation, one per line.
Result<LoadedJob> load_job(const JobSource& source);

// For `resume RUN_DIR`: the source is <run_dir>/spec.source.yaml, `source.files` is ignored, and run.dir
// becomes `run_dir`. Seed and global batch size of the run are kept (a different one is refused). When
// the command sets a degree, the batch or the number of processes, then procs_per_node,
// gradient_accumulation_steps and dp are derived anew unless it sets them too.
JobReport check_resumed_job(const std::string& run_dir, const JobSource& source);
Result<LoadedJob> load_resumed_job(const std::string& run_dir, const JobSource& source);

// Reads what `resolved_yaml` holds; `origin` names it in messages. Presets, defaults of families and
// `auto` play no part: the text is complete.
Result<JobSpec> parse_resolved(const std::string& yaml, const std::string& origin);

}  // namespace llmtrain
