#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "llmtrain/control/group_event.hpp"
#include "llmtrain/control/node_identity.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/instant.hpp"
#include "llmtrain/core/result.hpp"

// The agents of one job as one group: they find each other, agree on a leader, and notice who is gone.
//
// It carries payloads between the leader and its members and knows nothing of what is in them; it starts no
// worker and decides nothing about the job. It never blocks on the network: the owner polls its descriptors
// and calls poll() when one is ready or the deadline has come. See docs/CONTROL_PLANE.md.
namespace llmtrain {

struct ControlOptions {
  NodeIdentity self;
  int min_nodes = 1, max_nodes = 1;
  // Numbers 0 .. world_nodes - 1 are given out; 0 means max_nodes. Nodes beyond wait as spares when
  // min_nodes < max_nodes, and are refused otherwise.
  int world_nodes = 0;
  std::string endpoint;  // host[:port] of --rdzv-endpoint; may be empty when leader.json names a leader
  // May claim the first epoch: node rank 0, or the endpoint is an address of this host. Its port is opened at
  // the endpoint; where that is taken, a founder joins whoever leads: one without a node rank at once,
  // another if a group has begun in the run directory (an agent that it replaces may hold the port).
  bool founder = false;
  std::string control_dir;  // <run.dir>/control, shared by the nodes; made when missing
  std::string token;
  std::vector<std::string> expected_hosts;  // names for "who is missing"; may be empty
  Milliseconds join_timeout{600'000}, heartbeat{500}, silence_limit{4'000}, lease_limit{3'000};
};

class ControlGroup {
 public:
  // Opens the control port. What needs other nodes happens in poll().
  static Result<std::unique_ptr<ControlGroup>> open(ControlOptions options, FileSystem& files);
  virtual ~ControlGroup() = default;

  virtual void add_poll_fds(std::vector<pollfd>& fds) const = 0;
  virtual std::optional<Instant> deadline() const = 0;  // absent: the group is over
  virtual GroupEvents poll(Instant now) = 0;            // carries out whatever is due; never waits

  virtual bool leads() const = 0;
  virtual std::int64_t epoch() const = 0;  // 0 before the first
  virtual int node() const = 0;            // -1 before it has a number
  // The leader: more than half of the members that it had (itself included) are lost, or silent behind a dead
  // link. Numbers that were given up or taken over do not count.
  virtual bool lost_majority() const = 0;

  // At most 4 MiB a payload. False: there is nobody to send it to (no such member, no leader, too much
  // queued).
  virtual bool send(int node, std::string payload) = 0;
  virtual bool send_to_leader(std::string payload) = 0;
  virtual void send_to_spares(const std::string& payload) = 0;

  // Leader. False: no spare waits, or the number is held by a live member.
  virtual bool promote_spare(int node) = 0;
  virtual int num_spares() const = 0;
  virtual void give_up(int node) = 0;
  // Leader: the member is refused with kPreflight and `reason`, now and whenever it comes again; so is its
  // host, unless others of it are in the group. Later leaders of the job know it too. Of the leader itself it
  // holds when it has come to be one no more.
  virtual void exclude(int node, const std::string& reason) = 0;
  // Leader: cannot go on, but others may. The lease is marked so that they need not wait; Fenced follows.
  virtual void yield_lead() = 0;

  // A fault for drills: nothing is sent until then. Heartbeats are left out, all else goes out afterwards;
  // the lease is renewed all the same.
  virtual void mute(Instant until) = 0;

  // Orderly end: a leader marks its lease ended and says so to all, a member says that it leaves; what is
  // queued is flushed within a second; connections are closed.
  virtual void release() = 0;
};

}  // namespace llmtrain
