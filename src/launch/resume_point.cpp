#include "llmtrain/launch/resume_point.hpp"

#include <fmt/format.h>

#include "llmtrain/checkpoint/scan.hpp"

namespace llmtrain {

Result<ResumePoint> find_resume_point(FileSystem& files, const std::string& checkpoints_dir, int rollback) {
  LLMTRAIN_ASSIGN(newest, find_newest(files, checkpoints_dir, VerifyDepth::kFull));
  ResumePoint point;
  for (const RejectedCheckpoint& rejected : newest.rejected)
    point.rejected.push_back({rejected.path, rejected.reason});
  if (!newest.chosen) {
    if (point.rejected.empty()) return point;
    const CheckpointRejected& first = point.rejected.front();
    return Error{ErrorCode::kNoCheckpoint,
                 fmt::format("no checkpoint in {} is intact ({} are damaged); the newest: {}: {}",
                             checkpoints_dir,
                             point.rejected.size(),
                             first.path,
                             first.reason),
                 "look with `llmtrain ckpt verify`; to start over, choose another run.dir"};
  }
  auto chosen = newest.chosen;
  if (rollback > 0 && chosen->step > 0) {
    LLMTRAIN_ASSIGN(older, find_newest(files, checkpoints_dir, VerifyDepth::kFull, chosen->step - 1));
    if (older.chosen) {
      point.rejected.push_back({chosen->path, "the job failed twice at the same step after it"});
      chosen = older.chosen;
    }
  }
  point.path = chosen->path;
  point.step = chosen->step;
  return point;
}

}  // namespace llmtrain
