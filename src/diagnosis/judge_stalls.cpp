#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "llmtrain/diagnosis/verdict_text.hpp"
#include "llmtrain/diagnosis/worker_reports.hpp"

#include "judge.hpp"

namespace llmtrain {

bool Judge::waited_for() {
  const std::vector<int> ranks = longest_silent(graph_.roots());
  if (ranks.empty()) return false;
  const RankNote& note = *notes_.at(ranks.front());
  FailureKind kind = FailureKind::kHangCompute;
  const bool one = ranks.size() == 1;
  std::string what = one ? "makes no progress" : "make no progress";
  if (note.phase == to_string(Phase::kDataWait)) {
    kind = FailureKind::kHangInput;
    what = one ? "gets no data" : "get no data";
  } else if (note.waiting && shared(note)) {
    kind = crosses_nodes(graph_.members_of(note, note.waiting->group)) ? FailureKind::kTransport
                                                                       : FailureKind::kHangCollective;
    what = fmt::format("{} not come out of {}, which all its members have begun",
                       one ? "does" : "do",
                       describe(*note.waiting));
  }
  blame(kind, ranks, ranks.size() == 1 ? Confidence::kHigh : Confidence::kMedium);
  sentence_ = fmt::format("{} {}{}", place_of(e_, ranks), what, where_first());
  if (!note.wait_channel.empty() && note.wait_channel != "0")
    sentence_ += fmt::format(" (process state {}, kernel wait channel {})",
                             note.process_state.empty() ? "unknown" : note.process_state,
                             note.wait_channel);
  return true;
}

bool Judge::all_arrived() {
  const std::vector<int> inside = graph_.inside();
  if (inside.size() < 2) return false;
  const RankNote& note = *notes_.at(inside.front());
  const auto pair = cut_pair();
  const bool remote = crosses_nodes(inside);
  const std::vector<int> ranks = pair.empty() ? inside : pair;
  blame(remote ? FailureKind::kTransport : FailureKind::kHangCollective,
        ranks,
        pair.empty() ? Confidence::kMedium : Confidence::kHigh);
  v_.collective = note.waiting;
  sentence_ = fmt::format("All have begun {} and nobody comes out of it{}",
                          describe(*note.waiting),
                          remote ? ": bytes between nodes do not arrive" : "");
  if (!pair.empty())
    sentence_ += fmt::format(". {} do not hear each other", capital(place_of(e_, pair)));
  else
    sentence_ += fmt::format(". Concerned: {}", place_of(e_, inside));
  return true;
}

bool Judge::overdue() {
  const std::vector<int> ranks = longest_silent(e_.overdue);
  if (ranks.empty()) return false;
  const RankNote& note = *notes_.at(ranks.front());
  const bool input = note.phase == to_string(Phase::kDataWait);
  const bool call = note.waiting.has_value();
  blame(input  ? FailureKind::kHangInput
        : call ? FailureKind::kHangCollective
               : FailureKind::kHangCompute,
        ranks,
        Confidence::kMedium);
  const char* const plural = ranks.size() == 1 ? "s" : "";
  sentence_ = fmt::format("{} {}{} no {}{}",
                          place_of(e_, ranks),
                          input ? "get" : "make",
                          plural,
                          input ? "data" : "progress",
                          where_first());
  if (call) sentence_ += fmt::format(", inside {}", describe(*note.waiting));
  return true;
}

bool Judge::shared(const RankNote& note) const {
  for (const int rank : graph_.members_of(note, note.waiting->group)) {
    const auto peer = notes_.find(rank);
    if (rank == note.rank || peer == notes_.end() || !peer->second->waiting) continue;
    const CollectiveNote& theirs = *peer->second->waiting;
    if (theirs.group == note.waiting->group && theirs.sequence == note.waiting->sequence) return true;
  }
  return false;
}

std::vector<int> Judge::longest_silent(std::vector<int> ranks) const {
  std::erase_if(ranks, [&](int rank) { return !notes_.contains(rank); });
  std::vector<int> late;
  for (const int rank : ranks)
    if (std::count(e_.overdue.begin(), e_.overdue.end(), rank) > 0) late.push_back(rank);
  if (!late.empty()) ranks = late;
  double oldest = 0;
  for (const int rank : ranks) oldest = std::max(oldest, notes_.at(rank)->heartbeat_age_s);
  std::erase_if(ranks, [&](int rank) { return notes_.at(rank)->heartbeat_age_s < oldest / 2; });
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<int> Judge::cut_pair() const {
  std::map<int, std::set<int>> missing;
  for (const WorkerReport& report : e_.reports) missing[report.rank].merge(missing_ranks(report.text));
  for (const auto& [rank, others] : missing)
    for (const int other : others)
      if (missing.contains(other) && missing.at(other).contains(rank))
        return {std::min(rank, other), std::max(rank, other)};
  return {};
}

}  // namespace llmtrain
