#include "llmtrain/control/membership.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace llmtrain {
namespace {

constexpr std::size_t kMostSpares = 256;
constexpr std::size_t kMostExcluded = 1024;
constexpr std::size_t kLongestReason = 1024;

RefuseMessage final_refusal(ErrorCode code, std::string text) {
  return {RefusalKind::kFinal, code, std::move(text)};
}

// Two digests that differ, with as much of them as tells them apart.
std::optional<RefuseMessage> differs(ErrorCode code,
                                     const char* what,
                                     const std::string& here,
                                     const std::string& there,
                                     const std::string& host,
                                     const char* advice) {
  if (here == there) return std::nullopt;
  return final_refusal(code,
                       fmt::format("the {} of {} is {:.64}, the leader's is {:.64}; {}",
                                   what,
                                   host,
                                   there.empty() ? "unknown" : there,
                                   here.empty() ? "unknown" : here,
                                   advice));
}

}  // namespace

void Membership::expect(const Legacy& legacy,
                        std::optional<int> lost_leader,
                        Instant until,
                        GroupEvents& events) {
  excluded_ = legacy.excluded;
  if (excluded_.size() > kMostExcluded) excluded_.resize(kMostExcluded);
  for (const RosterEntry& entry : legacy.roster)
    if (entry.node != options_.node && entry.node >= 0 && entry.node < options_.world_nodes)
      expected_[entry.node] = entry.host;
  expected_until_ = until;
  if (lost_leader && expected_.count(*lost_leader) != 0) lose(*lost_leader, "it led until now", events);
}

std::optional<RefuseMessage> Membership::compare(const NodeIdentity& id) const {
  const NodeIdentity& own = options_.self;
  if (id.rdzv_id != own.rdzv_id)
    return final_refusal(
        ErrorCode::kUsage,
        fmt::format(
            "{} asks for job '{}' (--rdzv-id), this leader leads '{}'", id.host, id.rdzv_id, own.rdzv_id));
  // Another build or other data is the node's fault; another job is that of whoever started it there.
  if (auto no = differs(
          ErrorCode::kPreflight, "build", own.build, id.build, id.host, "start the same build on every node"))
    return no;
  if (auto no = differs(ErrorCode::kInvalidSpec,
                        "job spec's digest",
                        own.job_digest,
                        id.job_digest,
                        id.host,
                        "give every node the same job files and overrides"))
    return no;
  return differs(ErrorCode::kPreflight,
                 "data's digest",
                 own.data_digest,
                 id.data_digest,
                 id.host,
                 "every node must see the same data files");
}

Admission Membership::admit(Instant now, LinkId link, const JoinMessage& join) {
  Admission admission;
  admission.refusal = compare(join.identity);
  if (!admission.refusal) admission.refusal = refuse_excluded(join);
  if (admission.refusal || relink(admission, now, link, join)) return admission;
  admission.refusal = claim_number(admission, join);
  if (admission.refusal) return admission;
  if (admission.node < 0) {
    wait_as_spare(admission, now, link, join);
    return admission;
  }
  const bool returning = join.identity.survivor || expected_.count(admission.node) != 0 ||
                         (lost_.count(admission.node) != 0 && lost_.at(admission.node) == join.identity.host);
  seat(now, admission.node, {join.identity, join.instance, link, now}, returning, admission.events);
  return admission;
}

// The same process again, over a new connection.
bool Membership::relink(Admission& admission, Instant now, LinkId link, const JoinMessage& join) {
  for (auto& [node, member] : members_)
    if (member.instance == join.instance) {
      admission.node = node;
      admission.replaced = std::exchange(member.link, link);
      nodes_.erase(admission.replaced);
      nodes_[link] = node;
      heard(now, link, admission.events);
      // What was on its way over the old connection may be lost.
      if (admission.events.empty()) admission.events.push_back(MemberBack{node});
      return true;
    }
  for (Member& spare : spares_)
    if (spare.instance == join.instance) {
      admission.replaced = std::exchange(spare.link, link);
      return true;
    }
  return false;
}

std::optional<RefuseMessage> Membership::claim_number(Admission& admission, const JoinMessage& join) {
  const NodeIdentity& id = join.identity;
  const int wanted = id.node_rank.value_or(-1);
  if (!id.node_rank) {
    admission.node = free_number(id);
    if (admission.node >= 0 || options_.spares) return std::nullopt;
    return final_refusal(
        ErrorCode::kUsage,
        fmt::format("{} is one node too many: all {} numbers are taken; raise --nnodes, or give MIN:MAX "
                    "so that further nodes wait as spares",
                    id.host,
                    options_.world_nodes));
  }
  if (wanted >= options_.world_nodes) {
    if (options_.spares) return std::nullopt;
    return final_refusal(ErrorCode::kUsage,
                         fmt::format("{} has node rank {}, but ranks of {} nodes go from 0 to {}",
                                     id.host,
                                     wanted,
                                     options_.world_nodes,
                                     options_.world_nodes - 1));
  }
  const auto holder = members_.find(wanted);
  const bool alive = wanted == options_.node || (holder != members_.end() && !holder->second.silent);
  if (alive) {
    const NodeIdentity& other = wanted == options_.node ? options_.self : holder->second.identity;
    const bool asked = wanted == options_.node ? options_.self.node_rank == wanted && !options_.self.survivor
                                               : holder->second.by_rank;
    // A number that was given away while its node was gone: the node waits for another one.
    if (options_.spares && (id.survivor || !asked)) return std::nullopt;
    RefuseMessage refusal = final_refusal(
        ErrorCode::kUsage,
        fmt::format("node rank {} is taken by {} (pid {}); {} (pid {}) {}",
                    wanted,
                    other.host,
                    other.pid,
                    id.host,
                    id.pid,
                    id.survivor ? "came back too late to keep it" : "needs another --node-rank"));
    // Started anew on the same host: if the old process is gone, its silence will tell.
    if (wanted != options_.node && other.host == id.host) refusal.kind = RefusalKind::kRetryBriefly;
    return refusal;
  }
  if (holder != members_.end()) {
    admission.replaced = holder->second.link;
    lose(wanted, fmt::format("a new process on {} takes its place", id.host), admission.events);
  }
  admission.node = wanted;
  return std::nullopt;
}

// The number that its host had; else one that nobody had; else one that was lost.
int Membership::free_number(const NodeIdentity& id) const {
  for (const auto& [node, host] : lost_)
    if (host == id.host && !taken(node)) return node;
  for (int node = 0; node < options_.world_nodes; ++node)
    if (!taken(node) && expected_.count(node) == 0 && lost_.count(node) == 0) return node;
  for (const auto& [node, host] : lost_)
    if (!taken(node)) return node;
  return -1;
}

void Membership::wait_as_spare(Admission& admission, Instant now, LinkId link, const JoinMessage& join) {
  if (spares_.size() >= kMostSpares) {
    admission.refusal = final_refusal(ErrorCode::kUsage, fmt::format("{} spares wait already", kMostSpares));
    return;
  }
  spares_.push_back({join.identity, join.instance, link, now});
  admission.events.push_back(SpareJoined{join.identity});
}

void Membership::seat(Instant now, int node, Member member, bool returning, GroupEvents& events) {
  member.by_rank = member.identity.node_rank == node && !member.identity.survivor;
  member.identity.node_rank = node;
  member.heard = now;
  events.push_back(MemberJoined{node, member.identity, returning});
  nodes_[member.link] = node;
  members_[node] = std::move(member);
  expected_.erase(node);
  lost_.erase(node);
}

void Membership::lose(int node, const std::string& reason, GroupEvents& events) {
  const auto member = members_.find(node);
  lost_[node] = member != members_.end() ? member->second.identity.host : expected_[node];
  nodes_.erase(link_of(node));
  members_.erase(node);
  expected_.erase(node);
  events.push_back(MemberLost{node, reason});
}

void Membership::heard(Instant now, LinkId link, GroupEvents& events) {
  const auto node = nodes_.find(link);
  if (node == nodes_.end()) return;
  Member& member = members_.at(node->second);
  member.heard = now;
  if (std::exchange(member.silent, false)) events.push_back(MemberBack{node->second});
}

void Membership::closed(LinkId link, bool gone, const std::string& reason, GroupEvents& events) {
  spares_.erase(
      std::remove_if(spares_.begin(), spares_.end(), [&](const Member& spare) { return spare.link == link; }),
      spares_.end());
  const std::optional<int> node = node_of(link);
  if (!node) return;
  if (gone) return lose(*node, reason, events);
  Member& member = members_.at(*node);
  member.link = 0;
  member.unreachable = true;
  nodes_.erase(link);
  if (!std::exchange(member.silent, true)) events.push_back(MemberSilent{*node, false});
}

LinkId Membership::remove(int node) {
  const LinkId link = link_of(node);
  nodes_.erase(link);
  members_.erase(node);
  expected_.erase(node);
  lost_.erase(node);
  return link;
}

LinkId Membership::exclude(int node, const std::string& reason) {
  Exclusion entry{{}, {}, reason.substr(0, kLongestReason)};
  if (node == options_.node) entry.host = options_.self.host;
  if (const auto member = members_.find(node); member != members_.end()) {
    entry.instance = member->second.instance;
    entry.host = member->second.identity.host;
  } else if (const auto lost = lost_.find(node); lost != lost_.end()) {
    entry.host = lost->second;
  }
  if (excluded_.size() < kMostExcluded) excluded_.push_back(std::move(entry));
  return node == options_.node ? 0 : remove(node);
}

// Several agents of one host are nodes of their own only where somebody tries the program out.
bool Membership::has_member_on(const std::string& host) const {
  return options_.self.host == host || std::any_of(members_.begin(), members_.end(), [&](const auto& member) {
           return member.second.identity.host == host;
         });
}

std::optional<RefuseMessage> Membership::refuse_excluded(const JoinMessage& join) const {
  for (const Exclusion& entry : excluded_) {
    const bool same_host = entry.host == join.identity.host && !has_member_on(entry.host);
    if (same_host || (!entry.instance.empty() && entry.instance == join.instance))
      return final_refusal(ErrorCode::kPreflight, entry.reason);
  }
  return std::nullopt;
}

std::optional<LinkId> Membership::promote(Instant now, int node, GroupEvents& events) {
  if (spares_.empty() || node < 0 || node >= options_.world_nodes || taken(node)) return std::nullopt;
  Member spare = std::move(spares_.front());
  spares_.pop_front();
  const LinkId link = spare.link;
  seat(now, node, std::move(spare), false, events);
  return link;
}

void Membership::forgive(Milliseconds pause) {
  for (auto& [node, member] : members_) member.heard += pause;
}

std::optional<int> Membership::node_of(LinkId link) const {
  const auto node = nodes_.find(link);
  return node == nodes_.end() ? std::nullopt : std::optional(node->second);
}

LinkId Membership::link_of(int node) const {
  const auto member = members_.find(node);
  return member == members_.end() ? 0 : member->second.link;
}

std::vector<LinkId> Membership::links() const {
  std::vector<LinkId> links;
  for (const auto& [node, member] : members_)
    if (member.link != 0) links.push_back(member.link);
  for (const Member& spare : spares_) links.push_back(spare.link);
  return links;
}

std::vector<LinkId> Membership::spare_links() const {
  std::vector<LinkId> links;
  for (const Member& spare : spares_) links.push_back(spare.link);
  return links;
}

Roster Membership::roster() const {
  Roster roster{{options_.node, options_.self.host}};
  for (const auto& [node, member] : members_) roster.push_back({node, member.identity.host});
  for (const auto& [node, host] : expected_) roster.push_back({node, host});
  std::sort(roster.begin(), roster.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  return roster;
}

bool Membership::lost_majority() const {
  std::size_t lost = lost_.size();
  for (const auto& [node, member] : members_)
    if (member.silent && member.unreachable) ++lost;
  return 2 * lost > members_.size() + 1 + lost_.size() + expected_.size();
}

std::string Membership::missing(const std::vector<std::string>& expected_hosts) const {
  std::vector<std::string> names = expected_hosts;
  const auto strike = [&names](const std::string& host) {
    const auto found = std::find(names.begin(), names.end(), host);
    if (found != names.end()) names.erase(found);
  };
  strike(options_.self.host);
  for (const auto& [node, member] : members_) strike(member.identity.host);
  if (expected_hosts.empty())
    for (int node = 0; node < options_.world_nodes; ++node)
      if (!taken(node)) names.push_back(fmt::format("node {}", node));
  const std::size_t shown = std::min<std::size_t>(names.size(), 16);
  std::string list =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) list += fmt::format(" and {} more", names.size() - shown);
  return fmt::format("{} of {} nodes are here; missing: {}", size(), options_.world_nodes, list);
}

}  // namespace llmtrain
