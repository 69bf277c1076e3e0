#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/monitor/status_file.hpp"
#include "llmtrain/report/run_history.hpp"

// Where a run stands at this moment, live or dead, out of its directory alone.
//
// It reads the ends of the record files and never writes: a run of another user, or of another machine, can
// be looked at while it trains.
namespace llmtrain {

enum class RunState {
  kNew,         // nothing has been recorded
  kStarting,    // lives, no step of this launch yet
  kRunning,     // lives
  kRestarting,  // lives; an incarnation failed and the next has made no step
  kFinished,
  kStopped,  // on request, resumable
  kFailed,   // ended by itself, or cut off without a word
};
std::string_view to_string(RunState state);

struct RunStatus {
  std::string run_dir;
  std::string name;
  std::string layout;
  int world_size = 0;
  RunState state = RunState::kNew;
  std::string why;  // of a state that needs an explanation; else empty
  bool live = false;

  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::optional<double> loss;
  std::optional<double> tok_s;
  std::optional<double> mfu;
  std::optional<double> seconds_per_step;
  std::optional<double> seconds_left;  // of a live run
  std::optional<double> newest_time;   // of any record

  int incarnation = -1;
  int restarts = 0;
  int max_restarts = 0;
  std::optional<StatusFile> agents;  // ranks and their phase; absent: no such file, or of an ended launch
  std::optional<CheckpointEntry> checkpoint;  // newest usable, by manifest and sizes
  std::string checkpoint_problem;             // of a newer one that is not usable
  std::int64_t incidents = 0;
  std::optional<IncidentRecord> newest_incident;
  std::vector<StragglerNote> stragglers;  // ranks that the newest incarnation waits for, as far as was found
  std::string logs;                       // directory of the newest incarnation's logs
};

Result<RunStatus> read_status(FileSystem& files, const RunDir& run, bool live);

std::string status_text(const RunStatus& status, std::optional<double> now);
inline constexpr int kStatusSchema = 1;
std::string status_json(const RunStatus& status, int indent);

}  // namespace llmtrain
