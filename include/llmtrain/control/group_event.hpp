#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/control/node_identity.hpp"
#include "llmtrain/core/result.hpp"

// What happens in a group of agents, as one of them sees it. `link_acks`: the kernel of the other side still
// acknowledges what is sent, so the process stands still; otherwise nothing gets through.
namespace llmtrain {

// This node leads. In an epoch after the first one it saw, members of the epoch before follow as MemberJoined
// with `returning`, or as MemberLost.
struct BecameLeader {
  std::int64_t epoch = 0;
};
struct FollowsLeader {
  std::int64_t epoch = 0;
  int node = -1;  // this node's number; -1: it waits as a spare
  std::string leader_host;
};
struct LeaderSilent {
  bool link_acks = false;
};
struct LeaderBack {};
// A successor leads, or this node goes on to claim the next epoch, or (`ended`) the leader has ended the job.
struct LeaderLost {
  std::string reason;
  bool ended = false;
};
struct Fenced {  // somebody else leads `epoch`, or this node gave up the lead: the group is over for it
  std::int64_t epoch = 0;
};
struct MemberJoined {  // of every other node; the leader itself is not announced
  int node = 0;
  NodeIdentity identity;
  bool returning = false;  // it had this number before
};
struct SpareJoined {
  NodeIdentity identity;
};
struct MemberSilent {
  int node = 0;
  bool link_acks = false;
};
struct MemberBack {
  int node = 0;
};
struct MemberLost {
  int node = 0;
  std::string reason;
};
struct Received {
  int node = 0;  // the sender; a follower receives from the leader's node
  std::string payload;
};
struct StillMissing {
  std::string text;
};
struct JoinRefused {  // final; `code` gives the exit code
  ErrorCode code = ErrorCode::kUsage;
  std::string message;
};
struct JoinTimedOut {
  std::string message;
};

using GroupEvent = std::variant<BecameLeader,
                                FollowsLeader,
                                LeaderSilent,
                                LeaderBack,
                                LeaderLost,
                                Fenced,
                                MemberJoined,
                                SpareJoined,
                                MemberSilent,
                                MemberBack,
                                MemberLost,
                                Received,
                                StillMissing,
                                JoinRefused,
                                JoinTimedOut>;
using GroupEvents = std::vector<GroupEvent>;

}  // namespace llmtrain
