#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llmtrain/diagnosis/incident.hpp"
#include "llmtrain/diagnosis/memory_watch.hpp"
#include "llmtrain/monitor/rank_note.hpp"

// Who is to blame for a failure, and why: a pure function from what was seen to one paragraph.
//
// The first cause is found by causality, never by wall clock, because hosts do not share one: a rank that
// lost a peer is a consequence, and who waits for somebody is not the one who is waited for. It reads no
// file, asks no process, and does not decide what is done about the failure.
namespace llmtrain {

enum class FailureKind {
  kExit,
  kSignal,
  kOutOfMemory,
  kHangCompute,
  kHangInput,
  kHangCollective,
  kMissingCall,
  kMismatchedCall,
  kStopped,
  kNodeLost,
  kTransport,
  kDeterministicCrash,
  kUnknown,
};
// "exit", "signal", "out_of_memory", ...: the word in incident files and in resilience.on_failure.
std::string_view to_string(FailureKind kind);
std::optional<FailureKind> failure_kind(std::string_view word);

enum class Confidence { kLow, kMedium, kHigh };
std::string_view to_string(Confidence confidence);

struct LostNode {
  int node = 0;
  std::string reason;      // "connection closed", "silent for 4.2 s"
  bool link_acks = false;  // its kernel still answers: its agent is stopped, the host is not gone
};

// What a worker said about its own failure, in its words.
struct WorkerReport {
  int rank = 0;
  std::string text;
};

// The ranks of one group; several groups may bear one name ("dp" of each tensor rank).
struct GroupMembers {
  std::string name;
  std::vector<int> ranks;
};

// Where a rank failed, and how.
struct FailurePlace {
  std::vector<int> ranks;
  std::string phase;  // of the first of them; empty: not known
  std::string cause;  // "signal 11 (SIGSEGV)", as EndNote has it; empty: it did not end by itself
};

struct Evidence {
  std::vector<RankNote> ranks;             // all that is known, ended ones included
  std::map<int, std::string> hosts;        // by node
  std::vector<std::vector<EndNote>> ends;  // one list for each receiver, in its order of arrival
  std::vector<LostNode> lost_nodes;
  std::map<int, MemoryKills> oom_kills;  // by node: for lack of memory, in this incarnation
  std::vector<int> overdue;              // ranks past the deadline of their phase
  std::vector<WorkerReport> reports;
  std::vector<GroupMembers> groups;    // a group that is not listed is taken to hold every rank
  std::string start_failure;           // why a node could not start its workers; empty: all could
  std::vector<int> unkillable;         // ranks that SIGKILL did not end
  int crashes_at_step = 0;             // failures in a row with this last finished step, this one included
  std::optional<FailurePlace> before;  // the failure before this one
};

struct FailureVerdict {
  FailureKind kind = FailureKind::kUnknown;
  std::vector<int> culprits;                 // ascending
  std::optional<int> node;                   // of the culprits, when they are on one
  std::string host;                          // of that node; may be empty
  std::string phase;                         // of the first culprit; empty: not known
  std::string cause;                         // how that ended; empty: it did not end by itself
  std::int64_t last_step = 0;                // last finished step of the first culprit
  std::optional<CollectiveNote> collective;  // last call of the first culprit, or the one that is waited in
  std::vector<std::pair<int, int>> waiting;  // (who, for whom), at most 64 pairs
  Confidence confidence = Confidence::kLow;
  std::string paragraph;  // for a person at 3 a.m.
};

FailureVerdict judge(const Evidence& evidence);

// Writes the verdict into its incident: kind, ranks, node, paragraph, who waits for whom.
void record(const FailureVerdict& verdict, Incident& incident);

}  // namespace llmtrain
