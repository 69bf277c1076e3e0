#pragma once

#include <string>

#include "llmtrain/job/load_job.hpp"
#include "llmtrain/spec/yaml.hpp"

// The steps that loading and resuming a job share.
namespace llmtrain {

// The text of one file, at most one byte more than a job file may have.
std::string read_job_file(const std::string& file, Diagnostics& diagnostics);

// All files and overrides of the source as one tree.
YamlNode merge_sources(const JobSource& source, Diagnostics& diagnostics);

// Interpolates, applies preset and family, reads, resolves and validates.
JobReport finish_job(YamlNode tree, const JobSource& source, Diagnostics diagnostics);

Result<LoadedJob> to_result(JobReport report);

}  // namespace llmtrain
