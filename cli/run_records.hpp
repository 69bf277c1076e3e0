#pragma once

#include <string>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/run_dir.hpp"

// What `status` and `report` share: is this a run directory, and does a launch live on it?
namespace llmtrain::cli {

// kNotFound when `path` holds nothing that a launch writes.
Status check_run_dir(const std::string& path);
// Takes up to two seconds where only a change of the lease can tell.
bool is_live(FileSystem& files, const RunDir& run);

double unix_now();

}  // namespace llmtrain::cli
