#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"

// Whether a newer group of agents has taken a job over: the last question before anything is committed.
//
// Epochs are claimed by files `epoch-<n>` in the control directory of the run; it reads their names only.
namespace llmtrain {

// The newest claimed epoch; nothing when none is, or when there is no such directory.
Result<std::optional<std::int64_t>> newest_epoch(FileSystem& files, const std::string& control_dir);

// kHeld when an epoch after `own` is claimed.
Status check_not_fenced(FileSystem& files, const std::string& control_dir, std::int64_t own);

}  // namespace llmtrain
