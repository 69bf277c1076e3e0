#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/control/group_core.hpp"

// Agents, a network between them and a directory they share, on simulated time. A seed decides who crashes,
// stops, is cut off, is late and comes back; the simulation checks after every turn what must never happen.
namespace llmtrain::simulation {

inline constexpr Milliseconds kDead{8'000};  // when TCP gives up a link that gets nothing through

struct SharedDirectory {
  std::map<std::int64_t, EpochClaim> epochs;
  std::optional<LeaseRecord> lease;
  Legacy legacy;

  LeaseView look() const {
    LeaseView view;
    if (epochs.empty()) return view;
    view.newest = epochs.rbegin()->second;
    if (lease && lease->epoch == view.newest->epoch) view.lease = lease;
    return view;
  }
};

struct Arrival {
  enum class Kind { kUp, kFrame, kDown, kDialFailed } kind = Kind::kFrame;
  LinkId link = 0;
  bool flag = false;  // kUp: dialed; kDown: gone
  Message message;
};

// One process of an agent.
struct Process {
  int host = 0;
  std::int64_t id = 0;
  std::unique_ptr<GroupCore> core;
  std::multimap<Instant, Arrival> inbox;
  Instant next_turn{0}, stopped_until{0}, directory_lost_until{0};
  std::map<LinkId, std::pair<std::int64_t, LinkId>> links;  // the other end
  std::set<int> seats;                                      // of its members, as its events tell
  std::map<int, Instant> silent_since;
  bool fenced = false;
  bool dead = false;
};

class World {
 public:
  explicit World(std::uint64_t seed, bool traced = false)
      : random_(seed), traced_(traced), hosts_(pick(2, 6)), spares_(pick(0, 2) == 0 ? 1 : 0) {
    chaos_ = Milliseconds{pick(5'000, 60'000)};
    fault_every_ = pick(300, 8'000);
    for (int host = 0; host < hosts_; ++host) start(host, false, Instant{pick(0, 2'000)});
  }

  // Empty: every rule held, and all found together and ended.
  std::string run() {
    play_until(chaos_, true);
    calm_ = true;
    for (auto& [id, process] : processes_) process.stopped_until = process.directory_lost_until = now_;
    cuts_.clear();
    restart_ended();
    play_until(chaos_ + Milliseconds{90'000}, false);
    if (problem_.empty()) check_together();
    if (!problem_.empty()) return problem_;
    Process* leader = leading();
    ending_ = true;
    leader->core->release();
    carry_out(*leader);
    play_until(now_ + Milliseconds{20'000}, false);
    for (auto& [id, process] : processes_)
      if (problem_.empty() && !process.core->over())
        problem_ = "somebody goes on after the leader has ended the job";
    return problem_;
  }

  int num_epochs() const { return static_cast<int>(directory_.epochs.size()); }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void start(int host, bool survivor, Instant at) {
    const std::int64_t id = ++last_id_;
    GroupCoreOptions options;
    options.self.host = fmt::format("host{}", host);
    options.self.address = std::to_string(id);  // the network's name of this process
    options.self.control_port = 1;
    if (host < hosts_ - spares_) options.self.node_rank = host;
    options.self.survivor = survivor && options.self.node_rank;
    options.self.pid = id;
    options.instance = fmt::format("{:016}", id);
    options.world_nodes = hosts_ - spares_;
    options.min_nodes = 1;
    options.spares = true;
    options.founder = host == 0;
    Process& process = processes_[id];
    process.host = host;
    process.id = id;
    process.core = std::make_unique<GroupCore>(options, at);
    process.next_turn = at;
  }

  void play_until(Instant end, bool faults) {
    while (problem_.empty()) {
      Process* next = nullptr;
      for (auto& [id, process] : processes_) {
        if (process.core->over()) continue;
        const Instant turn = std::max(process.next_turn, process.stopped_until);
        if (next == nullptr || turn < std::max(next->next_turn, next->stopped_until)) next = &process;
      }
      const Instant turn = next ? std::max(next->next_turn, next->stopped_until) : end;
      if (faults && next_fault_ <= std::min(turn, end)) {
        now_ = std::max(now_, next_fault_);
        next_fault_ = now_ + Milliseconds{pick(1, 2 * fault_every_)};
        fault();
        continue;
      }
      if (turn >= end) break;
      now_ = std::max(now_, turn);
      take_turn(*next);
      if (!faults && !ending_) restart_ended();
    }
    now_ = std::max(now_, end);
  }

  void take_turn(Process& p) {
    p.next_turn = now_ + Milliseconds{pick(60, 200)};
    if (now_ >= p.directory_lost_until) p.core->lease_seen(now_, directory_.look());
    carry_out(p);
    while (!p.inbox.empty() && p.inbox.begin()->first <= now_) {
      const Arrival arrival = p.inbox.begin()->second;
      p.inbox.erase(p.inbox.begin());
      hear(p, arrival);
      carry_out(p);
      if (p.dead) return;
    }
    p.core->tick(now_, [&](LinkId link) { return acknowledged(p, link); });
    carry_out(p);
    if (!p.dead) decide(p);
    if (!p.dead) check(p);
  }

  void hear(Process& p, const Arrival& a) {
    if (a.kind != Arrival::Kind::kDialFailed && p.links.count(a.link) == 0) return;
    switch (a.kind) {
      case Arrival::Kind::kUp: return p.core->linked(now_, a.link, a.flag);
      case Arrival::Kind::kFrame: return p.core->message(now_, a.link, a.message);
      case Arrival::Kind::kDown: p.links.erase(a.link); return p.core->closed(now_, a.link, a.flag, "down");
      case Arrival::Kind::kDialFailed: return p.core->dial_failed(now_, "unreachable", false);
    }
  }

  bool cut(int a, int b) const {
    const auto found = cuts_.find(std::minmax(a, b));
    return found != cuts_.end() && now_ < found->second;
  }
  Instant cut_until(int a, int b) const {
    const auto found = cuts_.find(std::minmax(a, b));
    return found == cuts_.end() ? now_ : std::max(now_, found->second);
  }
  bool acknowledged(const Process& p, LinkId link) const {
    const auto end = p.links.find(link);
    if (end == p.links.end()) return false;
    const auto other = processes_.find(end->second.first);
    return other != processes_.end() && !cut(p.host, other->second.host);
  }

  // Frames of a link arrive in order, however late; a link that is cut for too long dies at both ends.
  void deliver(Process& to, int from_host, Arrival arrival) {
    Instant at = cut_until(from_host, to.host) + Milliseconds{pick(0, 20) == 0 ? pick(1, 900) : pick(0, 5)};
    Instant& last = last_arrival_[{to.id, arrival.link}];
    at = last = std::max(at, last);
    to.inbox.emplace(at, std::move(arrival));
  }

  void carry_out(Process& p) {
    for (GroupCommand& command : p.core->take())
      if (!p.dead) std::visit([&](auto& c) { carry_out(p, c); }, command);
  }
  void carry_out(Process& p, DialCommand& dial) {
    const auto other = processes_.find(std::stoll(dial.to.host));
    if (other == processes_.end() || other->second.core->over()) {
      p.inbox.emplace(now_ + Milliseconds{pick(0, 5)}, Arrival{Arrival::Kind::kDialFailed, 0, false, {}});
    } else if (now_ < other->second.stopped_until || cut(p.host, other->second.host)) {
      p.inbox.emplace(now_ + Milliseconds{4'000}, Arrival{Arrival::Kind::kDialFailed, 0, false, {}});
    } else {
      const LinkId here = ++last_link_, there = ++last_link_;
      p.links[here] = {other->first, there};
      other->second.links[there] = {p.id, here};
      deliver(p, other->second.host, {Arrival::Kind::kUp, here, true, {}});
      deliver(other->second, p.host, {Arrival::Kind::kUp, there, false, {}});
    }
  }
  void carry_out(Process& p, SendCommand& send) {
    const auto end = p.links.find(send.link);
    if (end == p.links.end()) return;
    const auto other = processes_.find(end->second.first);
    if (other == processes_.end()) return;
    if (cut_until(p.host, other->second.host) - now_ > kDead) return break_link(p, send.link);
    deliver(other->second, p.host, {Arrival::Kind::kFrame, end->second.second, false, send.message});
  }
  void break_link(Process& p, LinkId link) {
    const auto end = p.links.at(link);
    p.inbox.emplace(now_ + kDead, Arrival{Arrival::Kind::kDown, link, false, {}});
    const auto other = processes_.find(end.first);
    if (other != processes_.end())
      other->second.inbox.emplace(now_ + kDead, Arrival{Arrival::Kind::kDown, end.second, false, {}});
  }
  void carry_out(Process& p, HangUpCommand& hang_up) {
    const auto end = p.links.find(hang_up.link);
    if (end == p.links.end()) return;
    const auto other = processes_.find(end->second.first);
    if (other != processes_.end())
      deliver(other->second, p.host, {Arrival::Kind::kDown, end->second.second, true, {}});
    p.links.erase(end);
  }
  void carry_out(Process& p, ClaimCommand& wanted) {
    if (now_ < p.directory_lost_until) return;
    const EpochClaim claim{
        wanted.epoch, wanted.node, "host", std::to_string(p.id), 1, fmt::format("nonce{}", ++last_nonce_)};
    const bool won = directory_.epochs.emplace(wanted.epoch, claim).second;
    if (won && wanted.epoch != static_cast<std::int64_t>(directory_.epochs.size()))
      problem_ = "an epoch was skipped";
    if (won) owner_[wanted.epoch] = p.id;
    if (won && pick(0, 30) == 0 && !calm_) return crash(p.id, true);  // right after its claim
    p.core->claimed(now_, won, claim, directory_.legacy);
  }
  void carry_out(Process& p, RenewCommand& renew) {
    if (now_ >= p.directory_lost_until) directory_.lease = renew.record;
  }
  void carry_out(Process& p, PublishCommand& publish) {
    if (now_ >= p.directory_lost_until) directory_.legacy = publish.legacy;
  }
  template <class... Words>
  void trace(const Process& p, fmt::format_string<Words...> format, Words&&... words) {
    if (!traced_) return;
    fmt::print("{:>7} host {} process {}: ", now_.count(), p.host, p.id);
    fmt::print(format, std::forward<Words>(words)...);
    fmt::print("\n");
  }
  void carry_out(Process& p, GroupEvent& event) {
    static constexpr const char* kNames[] = {"BecameLeader",
                                             "FollowsLeader",
                                             "LeaderSilent",
                                             "LeaderBack",
                                             "LeaderLost",
                                             "Fenced",
                                             "MemberJoined",
                                             "SpareJoined",
                                             "MemberSilent",
                                             "MemberBack",
                                             "MemberLost",
                                             "Received",
                                             "StillMissing",
                                             "JoinRefused",
                                             "JoinTimedOut"};
    trace(p, "{} (epoch {}, node {})", kNames[event.index()], p.core->epoch(), p.core->node());
    if (const auto* e = std::get_if<StillMissing>(&event)) trace(p, "  {}", e->text);
    if (const auto* e = std::get_if<JoinRefused>(&event)) trace(p, "  {}", e->message);
    if (const auto* e = std::get_if<MemberLost>(&event)) trace(p, "  {} {}", e->node, e->reason);
    if (const auto* e = std::get_if<MemberJoined>(&event)) trace(p, "  {} {}", e->node, e->identity.host);
    if (std::get_if<BecameLeader>(&event)) {
      if (p.fenced) problem_ = "a fenced node leads again";
      p.seats.clear();
      p.silent_since.clear();
    }
    if (std::get_if<Fenced>(&event)) p.fenced = true;
    if (const auto* e = std::get_if<MemberJoined>(&event)) {
      if (!p.seats.insert(e->node).second) problem_ = fmt::format("two members have number {}", e->node);
      p.silent_since.erase(e->node);
      if (dies_now()) return crash(p.id, pick(0, 1) == 0);  // the group changes, and not everybody knows
    }
    if (const auto* e = std::get_if<MemberLost>(&event))
      p.seats.erase(e->node), p.silent_since.erase(e->node);
    if (const auto* e = std::get_if<MemberSilent>(&event)) p.silent_since[e->node] = now_;
    if (const auto* e = std::get_if<MemberBack>(&event)) p.silent_since.erase(e->node);
    if (const auto* e = std::get_if<FollowsLeader>(&event))
      if (directory_.epochs.count(e->epoch) == 0) problem_ = "a leader without a claim is followed";
    if (std::get_if<JoinTimedOut>(&event)) problem_ = "a join timed out";
  }

  // What the owner of a group does: gives up who is silent for long, lets spares step in, yields.
  void decide(Process& p) {
    if (!p.core->leads()) return;
    for (auto silent = p.silent_since.begin(); silent != p.silent_since.end();) {
      const int node = silent->first;
      const bool give_up = now_ - silent->second > Milliseconds{10'000};
      silent = give_up ? p.silent_since.erase(silent) : std::next(silent);
      if (!give_up) continue;
      p.seats.erase(node);
      p.core->give_up(node);
    }
    bool promoted = false;
    for (int node = 0; node < hosts_ - spares_ && !calm_; ++node)
      if (node != p.core->node() && p.seats.count(node) == 0 && pick(0, 40) == 0)
        p.core->promote_spare(now_, node), promoted = true;
    if (promoted && dies_now()) {  // some of what it said of that is on its way, and some is not
      for (GroupCommand& command : p.core->take()) {
        if (pick(0, 1) == 0) break;
        if (auto* send = std::get_if<SendCommand>(&command)) carry_out(p, *send);
      }
      return crash(p.id, pick(0, 1) == 0);
    }
    if (p.core->membership()->lost_majority() && !calm_ && pick(0, 20) == 0) p.core->yield_lead();
    carry_out(p);
  }

  bool dies_now() { return !calm_ && pick(0, 30) == 0; }

  void check(const Process& p) {
    if (p.core->leads()) {
      const std::int64_t epoch = p.core->epoch();
      if (owner_[epoch] != p.id) problem_ = fmt::format("epoch {} has two leaders", epoch);
      if (now_ >= p.directory_lost_until && directory_.epochs.rbegin()->first > epoch)
        problem_ = "a leader goes on although it sees a newer epoch";
    }
    if (!problem_.empty()) problem_ += fmt::format(" (at {} ms)", now_.count());
  }

  void crash(std::int64_t id, bool quiet) {
    auto node = processes_.extract(id);
    Process& p = node.mapped();
    p.dead = true;
    trace(p, "crash{}", quiet ? " without a word" : "");
    for (const auto& [link, end] : p.links) {
      const auto other = processes_.find(end.first);
      if (other == processes_.end()) continue;
      if (quiet)
        other->second.inbox.emplace(now_ + kDead, Arrival{Arrival::Kind::kDown, end.second, false, {}});
      else
        deliver(other->second, p.host, {Arrival::Kind::kDown, end.second, true, {}});
    }
    graveyard_.push_back(std::move(node));  // its core may be on the stack
    start(graveyard_.back().mapped().host,
          graveyard_.back().mapped().core->epoch() > 0 && pick(0, 1) == 0,
          now_ + Milliseconds{pick(10, calm_ ? 500 : 15'000)});
  }

  void fault() {
    auto victim = std::next(processes_.begin(), pick(0, static_cast<int>(processes_.size()) - 1));
    if (pick(0, 2) == 0)  // the leader more often than its share
      for (auto p = processes_.begin(); p != processes_.end(); ++p)
        if (p->second.core->leads()) victim = p;
    switch (pick(0, 5)) {
      case 0: return crash(victim->first, false);
      case 1: return crash(victim->first, true);
      case 2: victim->second.stopped_until = now_ + Milliseconds{pick(100, 12'000)}; return;
      case 3: victim->second.directory_lost_until = now_ + Milliseconds{pick(100, 9'000)}; return;
      case 4:
        for (int host = 0; host < hosts_; ++host)
          if (host != victim->second.host)
            cuts_[std::minmax(host, victim->second.host)] = now_ + Milliseconds{pick(500, 20'000)};
        return;
      default:
        cuts_[std::minmax(pick(0, hosts_ - 1), pick(0, hosts_ - 1))] = now_ + Milliseconds{pick(500, 20'000)};
    }
  }

  // In calm times whoever ended, fenced or refused, is started again.
  void restart_ended() {
    std::vector<std::int64_t> ended;
    for (auto& [id, process] : processes_)
      if (process.core->over()) ended.push_back(id);
    for (const std::int64_t id : ended) crash(id, false);
  }

  Process* leading() {
    Process* leader = nullptr;
    for (auto& [id, process] : processes_)
      if (process.core->leads() && (leader == nullptr || process.core->epoch() > leader->core->epoch()))
        leader = &process;
    return leader;
  }

  void check_together() {
    Process* leader = leading();
    if (leader == nullptr) {
      problem_ = "nobody leads";
      return;
    }
    for (auto& [id, process] : processes_)
      if (&process != leader && (process.core->leads() || process.core->epoch() != leader->core->epoch()))
        problem_ = fmt::format("host {} is not in epoch {}", process.host, leader->core->epoch());
  }

  std::mt19937_64 random_;
  bool traced_;
  int hosts_, spares_, fault_every_ = 1000;
  Instant now_{0}, chaos_{0}, next_fault_{500};
  bool calm_ = false, ending_ = false;
  std::string problem_;
  SharedDirectory directory_;
  std::map<std::int64_t, std::int64_t> owner_;
  std::map<std::int64_t, Process> processes_;
  std::vector<std::map<std::int64_t, Process>::node_type> graveyard_;
  std::map<std::pair<int, int>, Instant> cuts_;
  std::map<std::pair<std::int64_t, LinkId>, Instant> last_arrival_;
  std::int64_t last_id_ = 0, last_nonce_ = 0;
  LinkId last_link_ = 0;
};

}  // namespace llmtrain::simulation
