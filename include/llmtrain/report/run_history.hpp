#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/report/records.hpp"
#include "llmtrain/report/thinned_series.hpp"
#include "llmtrain/report/time_ledger.hpp"

// What happened in a run, out of the files it left: metrics.jsonl, events.jsonl and incidents/.
//
// It streams: memory grows with incarnations and incidents, not with steps. It only reads, and it takes files
// as they are: what is torn, damaged or unknown is counted and left out.
namespace llmtrain {

struct Incarnation {
  int number = 0;
  double start = 0;  // Unix seconds of its first and last record
  double end = 0;
  std::int64_t first_step = -1;  // step it started from; -1: it never got that far
  std::int64_t last_step = -1;   // last finished; -1: none
  std::int64_t productive_steps = 0;
  double productive_s = 0;
  int world_size = 0;
  std::string layout;
  std::string ended;  // "restarted: ...", "preempted (exit code 75)"; empty: no record says how
};

struct RejectedNote {
  double time = 0;
  int incarnation = 0;
  std::string path;
  std::string reason;
};
struct StopNote {
  double time = 0;
  int incarnation = 0;
  std::string signal;
};
// A rank, or several of a node, for which all others waited at every step.
struct StragglerNote {
  double time = 0;  // at which it was found
  int incarnation = 0;
  std::int64_t step = 0;
  std::int64_t until_step = -1;  // at which it was seen to keep up again; -1: it was slow until the end
  std::string ranks;             // "2, 3"
  int node = -1;
  std::string host;
  std::string cause;  // "compute", "data", "communication"
  double ms = 0;      // that the cause took a step; then the median of its peers, and the whole step
  double peers_ms = 0;
  double step_ms = 0;

  double share() const { return step_ms > 0 ? (ms - peers_ms) / step_ms : 0; }  // of a step, that all lost
};
StragglerNote straggler_note(const EventRow& found);
bool ends(const EventRow& over, const StragglerNote& straggler);

struct FinishNote {
  double time = 0;
  int code = 0;
  std::int64_t step = 0;
  std::string reason;
};

// How well the files could be read.
struct InputCounts {
  std::int64_t steps = 0;
  std::int64_t events = 0;
  std::int64_t unknown_events = 0;  // by a name this program does not know
  std::int64_t bad_lines = 0;       // no records at all, or too long
  std::int64_t torn_files = 0;      // whose last line has no end
  std::int64_t bad_incidents = 0;
  std::int64_t left_out = 0;  // records beyond what a report keeps
};

struct RunHistory {
  std::string run_dir;
  std::string name;
  std::string layout;
  int world_size = 0;
  std::int64_t total_steps = 0;
  double start = 0;
  double end = 0;
  std::vector<Incarnation> incarnations;  // ascending
  std::vector<IncidentRecord> incidents;  // ascending
  LedgerTotals ledger;
  std::optional<StepRow> newest_step;
  std::optional<FinishNote> finish;  // of the newest launch, when it has ended with a word
  std::int64_t checkpoints_saved = 0;
  std::int64_t checkpoint_bytes = 0;
  std::int64_t newest_saved_step = -1;
  std::int64_t evaluations = 0;
  std::optional<double> newest_eval_loss;
  std::vector<RejectedNote> rejected;
  std::vector<StopNote> stops;
  std::vector<StragglerNote> stragglers;
  InputCounts input;
  ThinnedSeries loss;
  ThinnedSeries rate;  // tokens a second
  ThinnedSeries eval{500};
};

struct HistoryOptions {
  std::map<int, double> started_at;  // when each incarnation was begun, where known
  std::optional<double> now;         // of a live run: time has gone on since its last record
};
Result<RunHistory> read_history(FileSystem& files, const RunDir& run, const HistoryOptions& options);

// The incident files, ascending by number; the newest `most` of them. `bad` counts those that are none.
std::vector<IncidentRecord> read_incidents(FileSystem& files,
                                           const RunDir& run,
                                           std::size_t most,
                                           std::int64_t& bad);

// When incarnations were begun, as the times of their spec-<n>.yaml tell. A copied run directory tells
// nothing true; a ledger takes only what fits between the records.
std::map<int, double> incarnation_starts(const RunDir& run);

}  // namespace llmtrain
