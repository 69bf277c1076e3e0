#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/verify.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"

// Which checkpoints a run has, and which one to go on from.
//
// Order is numeric, newest first: highest epoch, then highest step. What an incarnation that resumed from an
// older step has left behind (steps of earlier epochs beyond that step) is off the accepted history: it is
// listed, and never chosen unless asked for by name.
namespace llmtrain {

struct CheckpointEntry {
  std::string name;  // step-00000500
  std::string path;
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // a guess when the manifest cannot be read
  std::int64_t resumed_from_step = -1;
  std::int64_t saved_at = 0;
  std::uint64_t bytes = 0;
  std::size_t num_tensors = 0;
  bool readable = false;  // the manifest is there and passes its checks
  bool accepted = true;   // on the accepted history
  std::string problem;    // why it cannot be used, as far as a look at names and sizes tells; empty: none

  bool usable() const { return problem.empty(); }
};

// What was read of manifests, by directory name: committed ones never change, so that a listing that is given
// this looks only at the sizes of those it knows. For one directory of checkpoints.
struct KnownManifest {
  CheckpointEntry entry;
  std::vector<FileRecord> files;  // names and sizes
};
using KnownManifests = std::map<std::string, KnownManifest>;

// All of them, newest first; a directory that does not exist holds none. Reads manifests and sizes, no data.
Result<std::vector<CheckpointEntry>> list_checkpoints(FileSystem& files,
                                                      const std::string& checkpoints_dir,
                                                      KnownManifests* known = nullptr);

struct RejectedCheckpoint {
  std::string path;
  std::string reason;
};
struct Selection {
  std::optional<CheckpointEntry> chosen;     // absent: nothing usable
  std::vector<RejectedCheckpoint> rejected;  // newer ones that were passed over, to be told to the user
};
// The newest one that passes the check; `max_step` >= 0 leaves later steps out (going one further back).
Result<Selection> find_newest(FileSystem& files,
                              const std::string& checkpoints_dir,
                              VerifyDepth depth,
                              std::int64_t max_step = -1);

// The checkpoint of exactly this step (the newest epoch's); otherwise an error that lists the steps there
// are.
Result<CheckpointEntry> find_step(FileSystem& files, const std::string& checkpoints_dir, std::int64_t step);

// What a command was given: a step directory, or a run (or checkpoints) directory.
struct CheckpointPath {
  bool is_step = false;
  std::string directory;  // the step directory, or the checkpoints directory
};
Result<CheckpointPath> resolve_checkpoint_path(FileSystem& files, const std::string& path);
// The step directory itself, or the newest committed one of the run.
Result<std::string> resolve_step_directory(FileSystem& files, const std::string& path);

}  // namespace llmtrain
