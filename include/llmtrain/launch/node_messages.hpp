#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/diagnosis/incident.hpp"
#include "llmtrain/diagnosis/memory_watch.hpp"
#include "llmtrain/monitor/events.hpp"
#include "llmtrain/monitor/rank_note.hpp"

// What the leader orders from a node, and what a node reports to the leader.
//
// On one node they are passed as values. Between nodes they are JSON text inside of authenticated frames
// (control/), read as strictly as a stranger's: an unknown, missing or mistyped key, a number outside of its
// type and a list that is too long are errors, and nothing in them is ever taken for a path.
namespace llmtrain {

struct StartOrder {  // start these ranks; no worker of an earlier incarnation is alive anywhere
  int incarnation = 0;
  std::int64_t epoch = 0;  // of the leader; 0 on one node
  int node = 0;
  int nodes = 1;
  int first_rank = 0;
  int num_workers = 1;
  int world_size = 1;
  std::string spec_yaml;   // resolved
  std::string checkpoint;  // name of a step directory to go on from; empty = step 0
  friend bool operator==(const StartOrder&, const StartOrder&) = default;
};
struct StopOrder {  // ask every worker to stop after its step
  friend bool operator==(const StopOrder&, const StopOrder&) = default;
};
struct KillOrder {      // report where everybody is, then SIGKILL
  bool stacks = false;  // ask for native stacks first: it is not known what the workers are doing
  friend bool operator==(const KillOrder&, const KillOrder&) = default;
};
struct ClearOrder {  // kill whatever runs, whoever started it, and say NodeReady when nobody is left
  friend bool operator==(const ClearOrder&, const ClearOrder&) = default;
};
struct FinishOrder {  // the job is over: end with this code
  int code = 0;
  std::string reason;
  friend bool operator==(const FinishOrder&, const FinishOrder&) = default;
};
struct StoreAnswer {  // to what a worker asked of the key-value store (control/store_wire.hpp)
  int incarnation = 0;
  int rank = 0;
  std::string reply;  // bytes
  friend bool operator==(const StoreAnswer&, const StoreAnswer&) = default;
};
using NodeOrder = std::variant<StartOrder, StopOrder, KillOrder, ClearOrder, FinishOrder, StoreAnswer>;

struct NodeReady {  // no worker is left on this node: it can start an incarnation
  friend bool operator==(const NodeReady&, const NodeReady&) = default;
};
struct StartFailed {
  int incarnation = 0;
  int code = 0;  // exit code for the job
  std::string message;
  std::vector<int> not_started;  // ranks that are not there, and will never be reported gone
  friend bool operator==(const StartFailed&, const StartFailed&) = default;
};
struct WorkerSaid {  // an event of a worker
  int incarnation = 0;
  int rank = 0;
  Event event;
};
struct WorkerLeft {
  int incarnation = 0;
  EndNote end;
  RankNote note;
  std::vector<std::string> last_words;  // the end of its stderr, if it did not leave in order
  MemoryKills memory_kills;             // on its node, since the last worker was killed
  friend bool operator==(const WorkerLeft&, const WorkerLeft&) = default;
};
struct RanksSeen {  // once a second, and before a kill
  int incarnation = 0;
  std::vector<RankNote> notes;
  friend bool operator==(const RanksSeen&, const RanksSeen&) = default;
};
struct WorkerStalled {
  int incarnation = 0;
  int rank = 0;
  std::string message;
  friend bool operator==(const WorkerStalled&, const WorkerStalled&) = default;
};
struct StopAsked {  // a stop signal came to this node's agent
  std::string signal;
  friend bool operator==(const StopAsked&, const StopAsked&) = default;
};
struct NodeSaid {  // a sentence for the person who reads the leader's log
  Severity severity = Severity::kInfo;
  int rank = -1;
  std::string text;
  bool output = false;  // a line of a worker's output
  friend bool operator==(const NodeSaid&, const NodeSaid&) = default;
};
struct StoreAsked {
  int incarnation = 0;
  int rank = 0;
  std::string request;  // bytes
  friend bool operator==(const StoreAsked&, const StoreAsked&) = default;
};
using NodeReport = std::variant<NodeReady,
                                StartFailed,
                                WorkerSaid,
                                WorkerLeft,
                                RanksSeen,
                                WorkerStalled,
                                StopAsked,
                                NodeSaid,
                                StoreAsked>;

std::string to_json(const NodeOrder& order);
std::string to_json(const NodeReport& report);
Result<NodeOrder> order_from_json(const std::string& text);
Result<NodeReport> report_from_json(const std::string& text);

}  // namespace llmtrain
