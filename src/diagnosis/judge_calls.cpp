#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "llmtrain/diagnosis/verdict_text.hpp"
#include "llmtrain/diagnosis/worker_reports.hpp"
#include "llmtrain/job/worker_exit.hpp"

#include "judge.hpp"

namespace llmtrain {

bool Judge::disagreed() {
  const auto found = find_disagreement(e_.reports);
  if (!found) return false;
  const std::vector<int> ranks = minority(found->calls);
  const bool clear = ranks.size() < found->calls.size();
  blame(FailureKind::kMismatchedCall, ranks, clear ? Confidence::kHigh : Confidence::kMedium);
  sentence_ = fmt::format("{} made {} than {}: {}",
                          place_of(e_, ranks),
                          clear ? "another call" : "different calls",
                          clear ? "the others" : "each other",
                          found->text);
  if (!clear) sentence_ = fmt::format("{} made different calls: {}", place_of(e_, ranks), found->text);
  return true;
}

bool Judge::differing_boxes() {
  for (const RankNote& note : e_.ranks) {
    if (!note.waiting || is_message(*note.waiting)) continue;
    const CollectiveNote& call = *note.waiting;
    std::map<int, std::string> calls;
    for (const int rank : graph_.members_of(note, call.group)) {
      const auto peer = notes_.find(rank);
      if (peer == notes_.end()) continue;
      const CollectiveNote* theirs = at_sequence(*peer->second, call.group, call.sequence);
      if (theirs != nullptr) calls[rank] = fmt::format("{} of {} bytes", theirs->op, theirs->bytes);
    }
    const std::vector<int> ranks = minority(calls);
    const bool clear = ranks.size() < calls.size();
    const auto same = [&](const auto& c) { return c.second == calls.begin()->second; };
    if (std::all_of(calls.begin(), calls.end(), same)) continue;
    blame(FailureKind::kMismatchedCall, ranks, clear ? Confidence::kMedium : Confidence::kLow);
    v_.collective = call;
    std::vector<std::string> said;
    for (const auto& [rank, what] : calls)
      if (said.size() < 8) said.push_back(fmt::format("rank {} {}", rank, what));
    sentence_ = fmt::format("{} made {} as number {} of {}: {}",
                            place_of(e_, ranks),
                            clear ? "another call than the others" : "different calls",
                            call.sequence,
                            call.group,
                            fmt::join(said, ", "));
    return true;
  }
  return false;
}

bool Judge::left_early() {
  std::vector<int> ranks;
  for (const auto& list : e_.ends)
    for (const EndNote& end : list) {
      const bool peace = !end.signaled && !end.by_agent && is_consequence(end) &&
                         end.code != to_int(WorkerExit::kLostPeer) && end.code != to_int(ExitCode::kHang);
      if (peace && is_waited_for(end.rank)) ranks.push_back(end.rank);
    }
  if (ranks.empty()) return false;
  blame(FailureKind::kMissingCall, ranks, Confidence::kHigh);
  sentence_ = fmt::format("{} left although others still wait for a call of it", place_of(e_, ranks));
  return true;
}

bool Judge::in_circle() {
  const std::vector<int> circle = graph_.circle();
  if (circle.empty()) return false;
  std::map<std::string, std::vector<int>> inside;  // by call
  for (const int rank : circle) inside[describe(*notes_.at(rank)->waiting)].push_back(rank);
  std::vector<std::string> calls;
  std::vector<int> odd;
  for (const auto& [call, ranks] : inside) {
    if (calls.size() < 4) calls.push_back(fmt::format("{} in {}", place_of(e_, ranks), call));
    if (ranks.size() == 1) odd.insert(odd.end(), ranks.begin(), ranks.end());
  }
  if (const auto rank = out_of_step(circle)) odd = {*rank};
  const bool one_odd = odd.size() == 1 && (out_of_step(circle) || (circle.size() > 2 && inside.size() == 2));
  if (one_odd) {
    blame(FailureKind::kMissingCall, odd, Confidence::kMedium);
    for (const int rank : circle)
      if (graph_.waits_for(rank).contains(odd.front())) v_.collective = notes_.at(rank)->waiting;
    sentence_ = fmt::format(
        "{} went on without a call that the others make: {}", place_of(e_, odd), fmt::join(calls, ", "));
  } else {
    blame(FailureKind::kHangCollective, circle, Confidence::kMedium);
    sentence_ = fmt::format("Deadlock by order, ranks wait for each other: {}", fmt::join(calls, ", "));
  }
  return true;
}

std::optional<int> Judge::out_of_step(const std::vector<int>& circle) const {
  std::set<int> found;
  for (const int rank : circle) {
    const CollectiveNote& call = *notes_.at(rank)->waiting;
    const std::vector<int> members = graph_.members_of(*notes_.at(rank), call.group);
    std::set<std::uint64_t> elsewhere;
    for (const RankNote& note : e_.ranks)
      if (std::count(members.begin(), members.end(), note.rank) == 0)
        if (const auto* newest = newest_in(note, call.group)) elsewhere.insert(newest->sequence);
    if (elsewhere == std::set{call.sequence - 1}) found.insert(rank);
    if (elsewhere != std::set{call.sequence}) continue;
    for (const int peer : graph_.waits_for(rank))
      if (std::count(circle.begin(), circle.end(), peer) > 0) found.insert(peer);
  }
  return found.size() == 1 ? std::optional(*found.begin()) : std::nullopt;
}

bool Judge::missed() {
  std::map<int, std::set<int>> missed_by;
  std::set<int> complained;
  for (const WorkerReport& report : e_.reports)
    for (const int rank : missing_ranks(report.text)) {
      missed_by[rank].insert(report.rank);
      complained.insert(report.rank);
    }
  std::size_t most = 0;
  for (const auto& [rank, by] : missed_by)
    if (!complained.contains(rank)) most = std::max(most, by.size());
  std::vector<int> ranks;
  for (const auto& [rank, by] : missed_by)
    if (!complained.contains(rank) && by.size() == most) ranks.push_back(rank);
  if (ranks.empty()) return false;
  blame(FailureKind::kHangCompute, ranks, Confidence::kLow);
  std::set<int> by;
  for (const int rank : ranks) by.insert(missed_by.at(rank).begin(), missed_by.at(rank).end());
  sentence_ = fmt::format("{} did not arrive where {} waited{}",
                          place_of(e_, ranks),
                          rank_list({by.begin(), by.end()}),
                          where_first());
  return true;
}

bool Judge::is_waited_for(int rank) const {
  return std::any_of(e_.ranks.begin(), e_.ranks.end(), [&](const RankNote& note) {
    return graph_.waits_for(note.rank).contains(rank);
  });
}

const CollectiveNote* Judge::at_sequence(const RankNote& note, const std::string& group, std::uint64_t k) {
  if (note.waiting && note.waiting->group == group && note.waiting->sequence == k) return &*note.waiting;
  const CollectiveNote* const newest = newest_in(note, group);
  return newest != nullptr && newest->sequence == k ? newest : nullptr;
}

}  // namespace llmtrain
