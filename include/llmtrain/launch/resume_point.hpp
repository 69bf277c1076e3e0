#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/monitor/events.hpp"

// From where an incarnation starts.
namespace llmtrain {

struct ResumePoint {
  std::string path;                          // step directory; empty = step 0, fresh
  std::int64_t step = 0;                     // last finished
  std::vector<CheckpointRejected> rejected;  // newer ones that were passed over
  std::vector<Event> missed;                 // what nobody has written down yet: steps up to this one
};

// The newest checkpoint that passes every check; with `rollback` 1 the one before it, if there is one.
// A directory without checkpoints means step 0. Checkpoints of which none is intact are kNoCheckpoint:
// starting over would bury what may still be saved by hand.
Result<ResumePoint> find_resume_point(FileSystem& files, const std::string& checkpoints_dir, int rollback);

}  // namespace llmtrain
