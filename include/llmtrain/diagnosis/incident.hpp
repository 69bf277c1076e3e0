#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llmtrain/monitor/rank_note.hpp"

// What is written down about a failure: who fell first, who followed, where everybody was, what was done.
//
// Order is the order in which the agent saw things, on its own monotonic clock; wall time is only a label.
namespace llmtrain {

// The ranks that others wait for: those that have begun the fewest collectives, unless all have begun
// as many. Empty: the boxes do not tell.
std::vector<int> laggards(const std::vector<RankNote>& notes);

struct EndNote {
  int rank = 0;
  int pid = 0;
  bool signaled = false;
  int code = 0;
  std::string cause;      // "signal 9 (SIGKILL)", "exit 73: data error"
  double at_ms = 0;       // after the first sign of the failure
  bool by_agent = false;  // killed because of the failure

  friend bool operator==(const EndNote&, const EndNote&) = default;
};

// "signal 9 (SIGKILL)", "exit 73: data error".
std::string describe_end(bool signaled, int code);

// Something that happened on the way, for the time line of the incident.
struct IncidentMark {
  double at_ms = 0;  // after the first sign
  std::string text;  // "node 1 is silent", "stop: 4 workers killed", "step 6 finished"
};

struct Incident {
  int number = 0;
  int incarnation = 0;
  double time = 0;               // Unix seconds
  std::string detected_by;       // "process exit", "progress watch", "transport"
  std::vector<int> first_cause;  // ranks; more than one when several did not arrive
  std::string summary;

  // What verdict.hpp found (see record()).
  std::string kind = "unknown";
  std::string confidence = "low";
  std::string verdict;      // one paragraph
  std::optional<int> node;  // of the first cause
  std::string host;
  std::vector<std::pair<int, int>> waiting_for;  // (who, for whom)

  std::vector<EndNote> chain;  // in order of arrival; the first cause is not always first
  std::vector<RankNote> black_boxes;
  std::vector<IncidentMark> events;
  // From the failure itself to its first sign; absent: when it happened is not known.
  std::optional<double> detect_ms;
  double stop_ms = 0;  // from the first sign to the last worker gone
  std::string action;  // "restart 2 of 10", "end with 73"

  // Known later, when the restart has got that far.
  std::optional<std::int64_t> resumed_step;
  std::optional<std::int64_t> lost_steps;
  std::optional<double> rendezvous_ms;  // from the last worker gone to the next incarnation's start
  std::optional<double> load_ms;        // from there to the first rank that has loaded its state
  std::optional<double> first_step_ms;  // from the first sign to the next finished step
};
std::string to_json(const Incident& incident);

}  // namespace llmtrain
