#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Who may lead, as it stands in the run directory. Values only.
namespace llmtrain {

// The file epoch-<n>: made once, never changed.
struct EpochClaim {
  std::int64_t epoch = 0;
  int node = 0;
  std::string host, address;
  int port = 0;
  std::string nonce;

  bool operator==(const EpochClaim&) const = default;
};

enum class LeaseState {
  kHeld,
  kYielded,  // its leader cannot go on; others may at once
  kEnded,    // the job ended in good order
};

// The file lease: whether the leader lives is judged by the counter's changes on the observer's own clock.
struct LeaseRecord {
  std::int64_t epoch = 0;
  std::int64_t counter = 0;
  LeaseState state = LeaseState::kHeld;

  bool operator==(const LeaseRecord&) const = default;
};

struct LeaseView {
  std::optional<EpochClaim> newest;
  std::optional<LeaseRecord>
      lease;  // of the newest epoch only; what an older leader wrote late does not count
};

struct RosterEntry {  // a member of the newest epoch, as its leader published it
  int node = 0;
  std::string host;

  bool operator==(const RosterEntry&) const = default;
};
using Roster = std::vector<RosterEntry>;

struct Exclusion {       // a node that is not to be admitted again
  std::string instance;  // of its process; empty: that was lost before
  std::string host;
  std::string reason;

  bool operator==(const Exclusion&) const = default;
};
using Exclusions = std::vector<Exclusion>;

// What the newest leader has published for those who come after it.
struct Legacy {
  Roster roster;
  Exclusions excluded;

  bool operator==(const Legacy&) const = default;
};

}  // namespace llmtrain
