#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/instant.hpp"
#include "llmtrain/core/result.hpp"

// What failures have cost a launch so far, for whoever leads it next: the death of a leader is no new budget.
//
// Ages, not times: clocks of hosts are not compared. It decides nothing; failure_policy.hpp does.
namespace llmtrain {

struct RestartHistory {
  std::vector<Milliseconds> ages;         // of the restarts that count, when this was written; oldest first
  std::optional<std::int64_t> best_step;  // newest finished step at the last failure
  int without_progress = 0;               // failures in a row since then

  friend bool operator==(const RestartHistory&, const RestartHistory&) = default;
};

// Replaces `path`.
Status write_restart_history(FileSystem& files, const std::string& path, const RestartHistory& history);
// Empty without such a file.
Result<RestartHistory> read_restart_history(FileSystem& files, const std::string& path);

}  // namespace llmtrain
