#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/control/endpoint.hpp"
#include "llmtrain/control/group_event.hpp"
#include "llmtrain/control/lease_watch.hpp"
#include "llmtrain/control/membership.hpp"
#include "llmtrain/control/message.hpp"

// How one agent behaves in its group: joins, follows, leads, succeeds. What it sees goes in, what it wants
// done comes out.
//
// A pure state machine over links, messages, what stands in the run directory, and time. It opens no socket,
// reads no file and knows no clock, so that a simulation drives thousands of groups through every kind of
// failure.
namespace llmtrain {

struct GroupCoreOptions {
  NodeIdentity self;
  std::string instance;  // 16 random bytes
  int min_nodes = 1, world_nodes = 1;
  bool spares = false;
  bool founder = false;
  std::optional<Endpoint> endpoint;  // where to ask when the run directory names no leader
  std::vector<std::string> expected_hosts;
  Milliseconds join_timeout{600'000}, heartbeat{500}, silence_limit{4'000}, lease_limit{3'000};
};

struct DialCommand {
  Endpoint to;
  bool published = false;  // as the run directory names it; otherwise the endpoint that the user gave
};
struct SendCommand {
  LinkId link = 0;
  Message message;
};
struct HangUpCommand {  // what was sent goes out first, for a second at most; `closed` is not called for it
  LinkId link = 0;
};
struct ClaimCommand {  // answered by claimed()
  std::int64_t epoch = 0;
  int node = 0;
};
struct RenewCommand {
  LeaseRecord record;
};
struct PublishCommand {
  Legacy legacy;
};
using GroupCommand = std::
    variant<DialCommand, SendCommand, HangUpCommand, ClaimCommand, RenewCommand, PublishCommand, GroupEvent>;
using GroupCommands = std::vector<GroupCommand>;

class GroupCore {
 public:
  GroupCore(GroupCoreOptions options, Instant now);

  // Each of these may add commands; take() hands them over, in order.
  void lease_seen(Instant now, const LeaseView& view);
  // `legacy`: of the epoch before. Ignored unless won.
  void claimed(Instant now, bool won, const EpochClaim& claim, const Legacy& legacy);
  void linked(Instant now, LinkId link, bool dialed);  // both sides have proved themselves
  void note_problem(std::string what) { last_problem_ = std::move(what); }  // why nothing moves, for people
  void dial_failed(Instant now, const std::string& why, bool is_final);
  void message(Instant now, LinkId link, const Message& message);
  void closed(Instant now, LinkId link, bool gone, const std::string& why);
  // After everything else that is known at `now`. `acks` tells whether the other end's kernel has everything.
  void tick(Instant now, const std::function<bool(LinkId)>& acks);

  bool send(int node, std::string payload);
  bool send_to_leader(std::string payload);
  void send_to_spares(const std::string& payload);
  bool promote_spare(Instant now, int node);
  void give_up(int node);
  void exclude(int node, const std::string& reason);
  void yield_lead();
  void release();

  GroupCommands take() { return std::exchange(commands_, {}); }
  bool leads() const { return state_ == State::kLeading; }
  bool over() const { return state_ == State::kOver; }
  bool settled() const {
    return leads() ? gathered_ : state_ == State::kFollowing && link_ != 0 && !leader_silent_;
  }
  std::int64_t epoch() const { return epoch_; }
  int node() const { return node_; }
  const Membership* membership() const { return leads() ? &*membership_ : nullptr; }

 private:
  enum class State { kJoining, kFollowing, kLeading, kOver };

  void emit(GroupEvent event) { commands_.emplace_back(std::move(event)); }
  void emit_all(GroupEvents events);
  void post(LinkId link, MessageBody body) {
    commands_.emplace_back(SendCommand{link, {epoch_, std::move(body)}});
  }
  void hang_up(LinkId& link);
  void finish() { state_ = State::kOver; }

  // joining and following: group_follow.cpp
  void from_leader(Instant now, const Message& message);
  void welcomed(Instant now, std::int64_t epoch, const WelcomeMessage& welcome);
  void refused(Instant now, const RefuseMessage& refusal);
  void leave_epoch(Instant now, const std::string& reason);
  void leader_ended();
  void watch_leader(Instant now, const std::function<bool(LinkId)>& acks);
  std::optional<Instant> claims_at() const;
  void dial(Instant now);
  void wait_longer(Instant now);

  // leading: group_lead.cpp
  void from_member(Instant now, LinkId link, const Message& message);
  void consider(Instant now, LinkId link, const Message& message);
  void lead(Instant now);
  void renew(LeaseState state);
  void publish();
  void report_missing(Instant now);
  void fence(std::int64_t epoch);
  void drop_all_links();

  GroupCoreOptions options_;
  State state_ = State::kJoining;
  GroupCommands commands_;
  LeaseWatch watch_;
  std::int64_t epoch_ = 0;  // the newest that this node was in
  int node_ = -1;
  Instant last_tick_, waiting_since_, next_notice_;
  std::string last_problem_;

  // Joining and following.
  LinkId link_ = 0;  // to the leader
  bool dialing_ = false, dialed_published_ = false;
  Instant next_dial_{0}, join_sent_{0}, heard_{0}, last_beat_{0};
  int leader_node_ = 0;
  bool leader_silent_ = false;
  std::optional<Instant> refused_since_;

  // Leading.
  std::optional<Membership> membership_;
  EpochClaim claim_;
  std::map<LinkId, Instant> strangers_;  // proved themselves, have not joined yet
  std::int64_t counter_ = 0;
  Instant last_renewal_{0};
  Legacy published_;
  bool gathered_ = false;
};

}  // namespace llmtrain
