#include "llmtrain/diagnosis/wait_graph.hpp"

#include <algorithm>

namespace llmtrain {

bool is_message(const CollectiveNote& call) {
  return call.op.starts_with("send") || call.op.starts_with("recv");
}

const CollectiveNote* newest_in(const RankNote& note, const std::string& group) {
  for (const CollectiveNote& call : note.groups)
    if (call.group == group) return &call;
  return note.collective && note.collective->group == group ? &*note.collective : nullptr;
}

WaitGraph::WaitGraph(const Evidence& evidence) : evidence_(evidence) {
  for (const RankNote& note : evidence.ranks) notes_[note.rank] = &note;
  for (const RankNote& note : evidence.ranks) edges_[note.rank] = behind(note);
}

const std::set<int>& WaitGraph::waits_for(int rank) const {
  static const std::set<int> kNobody;
  const auto found = edges_.find(rank);
  return found == edges_.end() ? kNobody : found->second;
}

std::vector<int> WaitGraph::members_of(const RankNote& note, const std::string& group) const {
  for (const GroupMembers& members : evidence_.groups)
    if (members.name == group && std::count(members.ranks.begin(), members.ranks.end(), note.rank) > 0)
      return members.ranks;
  std::vector<int> all;
  for (const auto& [rank, other] : notes_) all.push_back(rank);
  return all;
}

std::set<int> WaitGraph::behind(const RankNote& note) const {
  std::set<int> ranks;
  if (!note.waiting) return ranks;
  const CollectiveNote& call = *note.waiting;
  for (const int rank : members_of(note, call.group)) {
    const auto found = notes_.find(rank);
    if (rank == note.rank || found == notes_.end()) continue;
    const RankNote& peer = *found->second;
    if (is_message(call)) {
      if (!peer.waiting || peer.waiting->group != call.group) ranks.insert(rank);
      continue;
    }
    // A box that no longer knows the group has made many other calls since: it is not in this one.
    const CollectiveNote* const newest = newest_in(peer, call.group);
    if (newest == nullptr || newest->sequence < call.sequence) ranks.insert(rank);
  }
  return ranks;
}

bool WaitGraph::reaches(int rank, int other) const {
  std::set<int> seen;
  std::vector<int> todo(waits_for(rank).begin(), waits_for(rank).end());
  while (!todo.empty()) {
    const int next = todo.back();
    todo.pop_back();
    if (next == other) return true;
    if (!seen.insert(next).second) continue;
    todo.insert(todo.end(), waits_for(next).begin(), waits_for(next).end());
  }
  return false;
}

std::vector<int> WaitGraph::roots() const {
  std::set<int> waited_for;
  for (const auto& [rank, peers] : edges_) waited_for.insert(peers.begin(), peers.end());
  std::vector<int> ranks;
  for (const int rank : waited_for)
    if (!waits(rank)) ranks.push_back(rank);
  return ranks;
}

std::vector<int> WaitGraph::circle() const {
  std::vector<int> ranks;
  for (const auto& [rank, peers] : edges_)
    if (!peers.empty() && reaches(rank, rank)) ranks.push_back(rank);
  return ranks;
}

std::vector<int> WaitGraph::inside() const {
  std::vector<int> ranks;
  for (const auto& [rank, note] : notes_)
    if (note->waiting && !waits(rank)) ranks.push_back(rank);
  return ranks;
}

}  // namespace llmtrain
