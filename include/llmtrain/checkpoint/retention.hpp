#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/scan.hpp"

// Which checkpoints may go: a pure decision, and a deletion that a crash cannot turn into a half checkpoint.
namespace llmtrain {

struct RetentionPolicy {
  int keep_last = 3;            // newest usable ones; 0 = all
  std::int64_t keep_every = 0;  // steps that are multiples stay for ever; 0 = none
};

// Names to delete, oldest first. `entries` come from list_checkpoints; usable means what that look at
// manifests and sizes can tell. Always kept: the newest usable one, and step 0, which is written only on
// request. Damaged ones do not count as kept; they go once they are older than the oldest of the newest
// `keep_last`, and never when nothing usable would be left.
std::vector<std::string> decide_retention(std::span<const CheckpointEntry> entries,
                                          const RetentionPolicy& policy);

// Renames each to a trash name first, then removes it: whatever happens, no half checkpoint has a step's
// name.
Status delete_checkpoints(FileSystem& files,
                          const std::string& checkpoints_dir,
                          std::span<const std::string> names);

// List, decide and delete, as one does after a commit. Returns the names deleted. What one who comes back
// after every save gives as `known` it need not read again.
Result<std::vector<std::string>> apply_retention(FileSystem& files,
                                                 const std::string& checkpoints_dir,
                                                 const RetentionPolicy& policy,
                                                 KnownManifests* known = nullptr);

}  // namespace llmtrain
