#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/monitor/black_box.hpp"

// Where one rank stood at one moment, as a value: what its node read out of its black box, and what the
// kernel said of its process. It travels between agents and is written into incidents; it judges nothing.
namespace llmtrain {

// One collective of a rank.
struct CollectiveNote {
  std::uint64_t count = 0;  // collectives that the rank had begun by then, this one included
  std::string group;
  std::string op;
  std::uint64_t sequence = 0;  // within the group, from 1
  std::uint64_t bytes = 0;
  bool finished = false;

  friend bool operator==(const CollectiveNote&, const CollectiveNote&) = default;
};

// What the finished steps of its incarnation have cost a rank (StepCosts of its black box), in milliseconds.
struct CostNote {
  std::int64_t step = 0;  // the last of them
  double total_ms = 0;
  double compute_ms = 0;
  double data_ms = 0;
  double sending_ms = 0;

  friend bool operator==(const CostNote&, const CostNote&) = default;
};

struct RankNote {
  int rank = 0;
  int node = 0;
  std::int64_t pid = 0;   // 0: not known
  std::int64_t step = 0;  // last finished
  std::string phase;
  std::int64_t micro_batch = 0;
  double heartbeat_age_s = 0;
  std::optional<CollectiveNote> collective;  // the newest
  std::optional<CollectiveNote> waiting;     // the one that it stands in; absent: it does something else
  std::vector<CollectiveNote> groups;        // the newest of each group that the box still knows
  std::optional<CostNote> costs;             // absent: no step yet, or nobody measures them
  std::string process_state;                 // "R", "S", "D", "T", ...; empty: not asked, or gone
  std::string wait_channel;                  // the kernel function in which it sleeps; empty: not known
  std::vector<std::string> stack;  // native frames, innermost first, as the worker wrote them; may be empty

  friend bool operator==(const RankNote&, const RankNote&) = default;
};

// Takes over what `note` lacks and an earlier one of the same rank has: stack and state of the process are
// read before a kill and cannot be read after it.
void fill_in(RankNote& note, const RankNote& earlier);

// The black box part of a note.
RankNote look_at(int rank, const BlackBox& box, std::int64_t now_ns);

}  // namespace llmtrain
