#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"

// <run>/control/status.json: where a live run stands, rewritten by its leader about once a second.
//
// It is a courtesy to people and dashboards: nothing is decided by it, and a run without it can still be
// read from its events. Readers judge whether it is alive by the change of `counter`, never by `time`, which
// is the clock of another host. Unknown keys are passed over, so that a newer writer does no harm.
namespace llmtrain {

inline constexpr int kStatusFileVersion = 1;

struct RankStatus {
  int rank = 0;
  std::int64_t pid = 0;
  std::string phase;      // as to_string(Phase) says it
  std::int64_t step = 0;  // last finished
  std::int64_t micro_batch = 0;
  double heartbeat_age_s = 0;

  friend bool operator==(const RankStatus&, const RankStatus&) = default;
};

struct NodeStatus {
  int node = 0;
  std::string host;
  std::int64_t pid = 0;  // of its agent
  std::string control;   // "leader", "member", "silent", "missing"
  std::vector<RankStatus> ranks;

  friend bool operator==(const NodeStatus&, const NodeStatus&) = default;
};

struct StatusFile {
  std::int64_t counter = 0;  // one more at every writing
  double time = 0;           // Unix seconds of the writer
  std::int64_t epoch = 0;
  int incarnation = 0;
  std::string state;  // "starting", "running", "restarting", "stopping", "finished"
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  int restarts = 0;
  int max_restarts = 0;
  std::vector<NodeStatus> nodes;

  friend bool operator==(const StatusFile&, const StatusFile&) = default;
};

std::string to_json(const StatusFile& status);
// Missing keys keep their defaults; a value of another type and another version are errors (kCorrupt).
Result<StatusFile> status_file_from_json(std::string_view text, const std::string& origin);

// Written beside `path` and renamed over it: a reader sees the old text or the new one. Not synced.
Status write_status_file(FileSystem& files, const std::string& path, const StatusFile& status);
inline constexpr std::uint64_t kMaxStatusFileBytes = 16 << 20;  // thousands of ranks
Result<StatusFile> read_status_file(FileSystem& files, const std::string& path);

}  // namespace llmtrain
