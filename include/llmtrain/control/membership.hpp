#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "llmtrain/control/group_event.hpp"
#include "llmtrain/control/lease.hpp"
#include "llmtrain/control/message.hpp"
#include "llmtrain/control/node_identity.hpp"
#include "llmtrain/core/instant.hpp"

// The leader's table: who has which number, who waits as a spare, who is silent or lost.
//
// Pure. It decides who is admitted and why not; it sends nothing and knows links by number only.
namespace llmtrain {

using LinkId = std::uint64_t;  // 0: none

struct MembershipOptions {
  NodeIdentity self;  // of the leader; its digests are what others are compared with
  int node = 0;       // the leader's number
  int world_nodes = 1, min_nodes = 1;
  bool spares = false;  // nodes beyond the numbers wait
  Milliseconds silence_limit{4'000};
};

struct Member {
  NodeIdentity identity;
  std::string instance;
  LinkId link = 0;  // 0: its link broke without a word from its process
  Instant heard{0};
  bool silent = false;
  bool by_rank = false;      // it asked for this number; otherwise the number was given to it
  bool unreachable = false;  // silent, and its kernel does not answer either
};

// What became of a request to join.
struct Admission {
  std::optional<RefuseMessage> refusal;  // absent: admitted
  int node = -1;                         // -1: as a spare
  LinkId replaced = 0;                   // an older link of the same node, to be closed
  GroupEvents events;
};

class Membership {
 public:
  explicit Membership(MembershipOptions options) : options_(std::move(options)) {}

  // A new leader's start: who was in the epoch before, and who led it. They are waited for until `until`.
  void expect(const Legacy& legacy, std::optional<int> lost_leader, Instant until, GroupEvents& events);

  Admission admit(Instant now, LinkId link, const JoinMessage& join);
  void heard(Instant now, LinkId link, GroupEvents& events);
  // `gone`: the process has ended; otherwise nothing more is known than that the link is dead.
  void closed(LinkId link, bool gone, const std::string& reason, GroupEvents& events);
  LinkId remove(int node);  // given up; the link to close
  // Not to be admitted again; the link to close. The leader's own host is meant for those who come after it.
  LinkId exclude(int node, const std::string& reason);
  std::optional<LinkId> promote(Instant now, int node, GroupEvents& events);  // the spare's link; absent: no
  // Who has fallen silent (`acks` tells of a link), and who of those expected has not come.
  template <class Acks>
  void watch(Instant now, const Acks& acks, GroupEvents& events);
  void forgive(Milliseconds pause);  // this process stood still: nobody is accused for that time

  std::optional<int> node_of(LinkId link) const;
  LinkId link_of(int node) const;
  std::vector<LinkId> links() const;  // of members and spares
  std::vector<LinkId> spare_links() const;
  Roster roster() const;  // the leader included
  Legacy legacy() const { return {roster(), excluded_}; }
  int size() const { return static_cast<int>(members_.size()) + 1; }
  int num_spares() const { return static_cast<int>(spares_.size()); }
  bool complete() const { return size() >= options_.world_nodes; }
  bool enough() const { return size() >= options_.min_nodes; }
  bool lost_majority() const;
  std::string missing(const std::vector<std::string>& expected_hosts) const;

 private:
  std::optional<RefuseMessage> compare(const NodeIdentity& identity) const;
  std::optional<RefuseMessage> refuse_excluded(const JoinMessage& join) const;
  bool has_member_on(const std::string& host) const;
  std::optional<RefuseMessage> claim_number(Admission& admission, const JoinMessage& join);
  int free_number(const NodeIdentity& identity) const;
  void wait_as_spare(Admission& admission, Instant now, LinkId link, const JoinMessage& join);
  bool relink(Admission& admission, Instant now, LinkId link, const JoinMessage& join);
  void seat(Instant now, int node, Member member, bool returning, GroupEvents& events);
  void lose(int node, const std::string& reason, GroupEvents& events);
  bool taken(int node) const { return node == options_.node || members_.count(node) != 0; }

  MembershipOptions options_;
  std::map<int, Member> members_;          // all but the leader
  std::unordered_map<LinkId, int> nodes_;  // of the links of members
  std::deque<Member> spares_;
  std::map<int, std::string> expected_;  // of the epoch before, not here yet: their hosts
  Instant expected_until_{0};
  std::map<int, std::string> lost_;  // numbers nobody took over, and their hosts
  Exclusions excluded_;              // at most kMostExcluded
};

template <class Acks>
void Membership::watch(Instant now, const Acks& acks, GroupEvents& events) {
  for (auto& [node, member] : members_)
    if (!member.silent && now - member.heard >= options_.silence_limit) {
      const bool link_acks = member.link != 0 && acks(member.link);
      member.silent = true;
      member.unreachable = !link_acks;
      events.push_back(MemberSilent{node, link_acks});
    }
  if (expected_.empty() || now < expected_until_) return;
  while (!expected_.empty()) lose(expected_.begin()->first, "it did not follow to the new leader", events);
}

}  // namespace llmtrain
