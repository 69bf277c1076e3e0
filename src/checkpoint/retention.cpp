#include "llmtrain/checkpoint/retention.hpp"

#include <algorithm>
#include <tuple>

#include "llmtrain/checkpoint/names.hpp"
#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {

std::vector<std::string> decide_retention(std::span<const CheckpointEntry> entries,
                                          const RetentionPolicy& policy) {
  if (policy.keep_last <= 0) return {};
  std::vector<const CheckpointEntry*> newest_first;
  for (const CheckpointEntry& entry : entries) newest_first.push_back(&entry);
  std::stable_sort(
      newest_first.begin(), newest_first.end(), [](const CheckpointEntry* a, const CheckpointEntry* b) {
        return std::tie(a->epoch, a->step) > std::tie(b->epoch, b->step);
      });

  std::vector<std::string> doomed;
  int kept = 0;
  for (const CheckpointEntry* entry : newest_first) {
    const bool counts = entry->usable() && entry->accepted;
    // Until enough good ones are kept nothing goes, so the last usable one never does.
    if (kept < policy.keep_last) {
      kept += counts ? 1 : 0;
      continue;
    }
    if (entry->step == 0) continue;
    if (counts && policy.keep_every > 0 && entry->step % policy.keep_every == 0) continue;
    doomed.push_back(entry->name);
  }
  std::reverse(doomed.begin(), doomed.end());
  return doomed;
}

Status delete_checkpoints(FileSystem& files,
                          const std::string& checkpoints_dir,
                          std::span<const std::string> names) {
  for (const std::string& name : names) {
    const std::string trash = join_path(checkpoints_dir, trash_directory_name(name));
    LLMTRAIN_TRY(remove_tree(files, trash));  // of an earlier deletion that was cut short
    LLMTRAIN_ASSIGN(moved, files.rename_without_replacing(join_path(checkpoints_dir, name), trash));
    if (!moved) return Error{ErrorCode::kStorage, trash + " is in the way", "remove it"};
    // The new name must be on disk before the first file goes.
    LLMTRAIN_TRY(files.sync_directory(checkpoints_dir));
    LLMTRAIN_TRY(remove_tree(files, trash));
  }
  return ok_status();
}

Result<std::vector<std::string>> apply_retention(FileSystem& files,
                                                 const std::string& checkpoints_dir,
                                                 const RetentionPolicy& policy,
                                                 KnownManifests* known) {
  LLMTRAIN_ASSIGN(entries, list_checkpoints(files, checkpoints_dir, known));
  std::vector<std::string> doomed = decide_retention(entries, policy);
  if (known != nullptr)
    for (const std::string& name : doomed) known->erase(name);
  LLMTRAIN_TRY(delete_checkpoints(files, checkpoints_dir, doomed));
  return doomed;
}

}  // namespace llmtrain
