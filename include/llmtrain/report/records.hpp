#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// One line of metrics.jsonl or events.jsonl as a report needs it, read with patience.
//
// A report must be able to read what an older or newer program wrote: keys that are not known are passed
// over, keys that are missing keep their defaults, and a line that is no record is nothing.
namespace llmtrain {

struct StepRow {
  std::int64_t step = 0;
  int incarnation = 0;
  double time = 0;  // Unix seconds
  std::optional<double> loss;
  std::optional<double> tok_s;
  std::optional<double> step_ms;
  std::optional<double> mfu;
  std::int64_t tokens = 0;
  std::int64_t skipped = 0;
};
std::optional<StepRow> step_row(std::string_view line);

enum class EventKind {
  kRunStarted,
  kEval,
  kCheckpointSaved,
  kCheckpointLoaded,
  kCheckpointRejected,
  kWorkerExited,
  kRestart,
  kStraggler,
  kStragglerOver,
  kStopRequested,
  kRunFinished,
  kNote,
  kTotals,  // sums at the end of a run: comm_totals, memory, phase_totals
  kUnknown,
};

// The fields that its kind has; the others are empty.
struct EventRow {
  EventKind kind = EventKind::kUnknown;
  int incarnation = 0;
  double time = 0;
  std::int64_t step = 0;  // first_step of a run_started
  std::int64_t total_steps = 0;
  int world_size = 0;
  int rank = -1;
  int code = 0;
  int restarts = 0;
  int max_restarts = 0;
  std::optional<double> loss;
  double ms = 0;
  std::int64_t bytes = 0;
  std::string name;    // run, layout's run name
  std::string layout;  // of a run_started
  std::string text;    // cause, reason, signal, path: what a person would be told
  std::string path;
  std::string severity;
  // Of a straggler; `text` is its cause, `ms` what that takes a step.
  std::string ranks;  // "2, 3"
  int node = -1;
  std::string host;
  double peers_ms = 0;
  double step_ms = 0;
};
std::optional<EventRow> event_row(std::string_view line);

// An incident file.
struct IncidentEnd {
  int rank = 0;
  std::string cause;
  bool killed_by_agent = false;
};
struct IncidentRecord {
  int number = 0;
  int incarnation = 0;
  double time = 0;
  std::string detected_by;
  std::vector<int> first_cause;
  std::string node;  // of the first cause; empty: not known
  std::string summary;
  std::string verdict;      // one paragraph; empty when the writer gave none
  std::string waiting_for;  // empty: not known
  std::string action;
  std::vector<IncidentEnd> chain;
  std::int64_t reached_step = 0;  // the furthest that a black box has seen
  std::optional<double> detect_s, stop_s, rendezvous_s, load_s, first_step_s;
  std::optional<std::int64_t> resumed_step;
  std::optional<std::int64_t> lost_steps;
};
std::optional<IncidentRecord> incident_record(std::string_view text);

// The paragraph that tells what happened: the verdict, else the summary.
const std::string& story(const IncidentRecord& incident);

}  // namespace llmtrain
