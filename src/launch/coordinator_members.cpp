#include <algorithm>

#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/discovery/host_address.hpp"
#include "llmtrain/launch/coordinator.hpp"

// Nodes that come, fall silent and go.
namespace llmtrain {

void Coordinator::node_joined(Instant now, int node, const std::string& host, std::int64_t pid) {
  // Whoever held this number has left without a word.
  carry_out(now, supervisor_.node_lost(now, node, ranks_of(node)));
  hosts_[node] = host;
  pids_[node] = pid;
  stops_.erase(node);
  leaving_.erase(node);
  silent_.back(node);
  unreachable_.erase(node);
  note(Severity::kInfo, fmt::format("{} has joined", name_of(node)));
  orders_.emplace_back(node, done() ? NodeOrder(finish_) : NodeOrder(ClearOrder{}));
}

void Coordinator::node_silent(Instant now, int node, bool link_acks) {
  if (link_acks) {  // its kernel answers and its agent does not: it is stopped
    changes_.push_back({MembershipChange::Kind::kGiveUp, node});
    return lose_node(now, {node, "its agent stands still", true});
  }
  silent_.silent(now, node);
  // Where its ranks are is not seen: that they seem to stand still means nothing.
  if (progress_)
    for (const int rank : ranks_of(node)) progress_->forget(rank);
  note(Severity::kWarning,
       fmt::format("no word from {}: the link to its agent is cut; it is counted on as long as steps are "
                   "finished",
                   name_of(node)));
}

// What was ordered meanwhile may not have arrived. Hands that are told a second time do nothing new.
void Coordinator::node_back(Instant, int node) {
  silent_.back(node);
  note(Severity::kInfo, fmt::format("{} is heard again", name_of(node)));
  if (is_idle(node)) {
    orders_.emplace_back(node, done() ? NodeOrder(finish_) : NodeOrder(ClearOrder{}));
    return;
  }
  const auto start = start_orders_.find(node);
  if (start == start_orders_.end()) return;  // its checkpoint is searched for
  orders_.emplace_back(node, start->second);
  if (supervisor_.stopping() || supervisor_.growing()) orders_.emplace_back(node, StopOrder{});
  if (supervisor_.killing()) orders_.emplace_back(node, KillOrder{.stacks = supervisor_.hung()});
}

void Coordinator::node_lost(Instant now, int node, const std::string& reason) {
  lose_node(now, {node, reason, false});
}

void Coordinator::lose_node(Instant now, const LostNode& lost) {
  if (done()) return;
  const int node = lost.node;
  silent_.back(node);
  const bool has_left = leaving_.erase(node) == 1 && is_idle(node);
  const std::string text =
      fmt::format("{} {}: {}", name_of(node), has_left ? "has left" : "is lost", lost.reason);
  note(has_left ? Severity::kInfo : Severity::kError, text);
  if (options_.successor && !has_started_ && !has_left) charge_lost_leader(now, lost);
  const std::vector<int> ranks = ranks_of(node);
  if (!is_idle(node)) evidence_.lost(lost);
  for (const int rank : ranks) {
    if (!supervisor_.alive(rank)) continue;
    if (progress_) progress_->forget(rank);
    incidents_.begin(now, clock_.now(), supervisor_.incarnation(), "node lost");
    incidents_.note_end(now, {.rank = rank, .cause = text});
  }
  changes_.push_back({MembershipChange::Kind::kPromoteSpare, node});
  carry_out(now, supervisor_.node_lost(now, node, ranks));
  hosts_.erase(node);
}

// What the leader before knew of its incarnation went with it; that it is lost is known, and counts.
void Coordinator::charge_lost_leader(Instant now, const LostNode& lost) {
  evidence_.lost(lost);
  if (std::exchange(lost_leader_, true)) return;  // another node went with it
  incidents_.begin(now, clock_.now(), supervisor_.incarnation() - 1, "lost leader");
  carry_out(now, supervisor_.leader_lost(now));
  if (supervisor_.done()) return;
  write_history(now);
  emit(Restarted{supervisor_.num_restarts(),
                 options_.supervisor.max_restarts,
                 fmt::format("{} is lost: {}", name_of(lost.node), lost.reason)});
}

// Whether a report is of the incarnation that a lost leader left behind. What that leader knew of it went
// with it; what the other nodes see of their ranks, they say while they clear them away.
bool Coordinator::takes_over_from(int incarnation) const {
  return options_.successor && !has_started_ && incarnation == supervisor_.incarnation() - 1;
}

// Every node that is left has said what it saw.
void Coordinator::close_lost_leader(Instant now) {
  if (!std::exchange(lost_leader_, false)) return;
  const std::string then =
      supervisor_.done()
          ? "and ends the job"
          : fmt::format("restart {} of {}", supervisor_.num_restarts(), options_.supervisor.max_restarts);
  incidents_.close(now,
                   std::nullopt,
                   fmt::format("{} leads, {}", name_of(options_.node), then),
                   judge(evidence_.make(hosts_, 0)));
}

// It is to blame, and is not let in again. The leader's own node leads on, without workers: what is wrong
// with them is no reason to lose the agent that holds the job together. Its host is refused once it leads no
// more.
void Coordinator::exclude_node(int node) {
  const std::string text =
      fmt::format("{} is left out until the end of the job: {}",
                  name_of(node),
                  verdict_.paragraph.empty() ? "workers failed on it" : verdict_.paragraph);
  note(Severity::kError, text);
  silent_.back(node);
  hosts_.erase(node);
  changes_.push_back({MembershipChange::Kind::kExclude, node, text});
  if (node == options_.node) return;
  changes_.push_back({MembershipChange::Kind::kPromoteSpare, node});
}

bool Coordinator::is_idle(int node) const {
  const std::vector<int> ranks = ranks_of(node);
  return std::none_of(ranks.begin(), ranks.end(), [this](int rank) { return supervisor_.alive(rank); });
}

void Coordinator::let_leavers_go() {
  for (auto& [node, told] : leaving_)
    if (is_idle(node) && !std::exchange(told, true))
      orders_.emplace_back(
          node, FinishOrder{to_int(ExitCode::kPreempted), "this node leaves, and the others go on"});
}

void Coordinator::spare_joined(Instant, const std::string& host) {
  note(Severity::kInfo, fmt::format("{} waits as a spare", host));
  for (int node = 0; node < num_nodes(); ++node)
    if (node != options_.node && !hosts_.contains(node))
      return changes_.push_back({MembershipChange::Kind::kPromoteSpare, node});
}

// Ranks go through the nodes in the order of the fabric; without one, by node number.
void Coordinator::arrange_nodes(const std::vector<int>& nodes) {
  slots_ = nodes;
  const auto& order = options_.topology_order;
  const auto place = [&](int node) {
    const auto host = hosts_.find(node);
    return host == hosts_.end() ? order.end() : std::find(order.begin(), order.end(), host->second);
  };
  std::sort(slots_.begin(), slots_.end(), [&](int a, int b) {
    return std::pair(place(a), a) < std::pair(place(b), b);
  });
}

void Coordinator::write_status(Instant now) {
  if (done() || !status_.due(now)) return;
  StatusFile status;
  status.epoch = options_.epoch;
  status.incarnation = supervisor_.incarnation();
  status.state = supervisor_.stopping()                        ? "stopping"
                 : supervisor_.running() && status_.any_rank() ? "running"
                 : status_.restarts() > 0                      ? "restarting"
                                                               : "starting";
  status.max_restarts = options_.supervisor.max_restarts;
  for (int node = 0; node < num_nodes(); ++node) status.nodes.push_back(status_of(node));
  status_.write(now, RunClock::time_of_day(), std::move(status));
}

NodeStatus Coordinator::status_of(int node) const {
  NodeStatus status;
  status.node = node;
  const auto host = hosts_.find(node);
  if (host != hosts_.end()) {
    status.host = host->second;
    const auto pid = pids_.find(node);
    if (pid != pids_.end()) status.pid = pid->second;
  }
  if (node == options_.node && status.host.empty()) status.host = host_name();
  status.control = host == hosts_.end()      ? "missing"
                   : node == options_.node   ? "leader"
                   : silent_.is_silent(node) ? "silent"
                                             : "member";
  return status;
}

std::string Coordinator::name_of(int node) const {
  const auto host = hosts_.find(node);
  return host == hosts_.end() || host->second.empty() ? fmt::format("node {}", node)
                                                      : fmt::format("node {} ({})", node, host->second);
}

}  // namespace llmtrain
