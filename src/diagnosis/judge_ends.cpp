#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/diagnosis/process_state.hpp"
#include "llmtrain/diagnosis/verdict_text.hpp"
#include "llmtrain/diagnosis/worker_reports.hpp"
#include "llmtrain/job/worker_exit.hpp"

#include "judge.hpp"

namespace llmtrain {
namespace {

constexpr double kTogetherMs = 200;  // ends of one receiver that are this close are one event
constexpr int kSameCrash = 2;        // crashes at one step from which on chance is ruled out
constexpr int kSigKill = 9;

}  // namespace

bool is_consequence(const EndNote& end) {
  if (end.by_agent) return true;
  if (end.signaled) return false;
  return end.code == to_int(WorkerExit::kLostPeer) || end.code == to_int(ExitCode::kHang) ||
         end.code == to_int(ExitCode::kDone) || end.code == to_int(WorkerExit::kStoppedSaved) ||
         end.code == to_int(WorkerExit::kStoppedUnsaved);
}

bool Judge::not_started() {
  if (e_.start_failure.empty()) return false;
  v_.confidence = Confidence::kHigh;
  sentence_ = "Workers could not be started on " + e_.start_failure;
  return true;
}

bool Judge::ran_out() {
  std::vector<int> ranks;
  std::string limit;
  for (const auto& list : e_.ends)
    for (const EndNote& end : list) {
      const bool open =
          !end.signaled && !end.by_agent &&
          (end.code == to_int(ExitCode::kInternal) || end.code == to_int(WorkerExit::kLostPeer));
      for (const WorkerReport& report : e_.reports) {
        const auto at = report.rank == end.rank && open ? report.text.find(kLimitPrefix) : std::string::npos;
        if (at == std::string::npos) continue;
        ranks.push_back(end.rank);
        const auto from = at + kLimitPrefix.size();
        if (limit.empty()) limit = report.text.substr(from, report.text.find('\n', from) - from);
      }
    }
  if (ranks.empty()) return false;
  blame(FailureKind::kExit, ranks, Confidence::kMedium);
  sentence_ = fmt::format("{} ran into a limit{}: {}", place_of(e_, ranks), where_first(), limit);
  return true;
}

bool Judge::stopped() {
  std::vector<int> ranks;
  for (const RankNote& note : e_.ranks)
    if (note.process_state == "T" || note.process_state == "t" || is_frozen(note)) ranks.push_back(note.rank);
  if (ranks.empty()) return false;
  blame(FailureKind::kStopped, ranks, Confidence::kHigh);
  const RankNote& first = *notes_.at(ranks.front());
  sentence_ = fmt::format("{} {} {} (process state {}){}",
                          place_of(e_, ranks),
                          ranks.size() == 1 ? "is" : "are",
                          is_frozen(first) ? "frozen" : "stopped",
                          first.process_state,
                          where_first());
  return true;
}

bool Judge::lost_node() {
  if (e_.lost_nodes.empty()) return false;
  std::vector<int> ranks;
  std::vector<std::string> nodes;
  for (const LostNode& lost : e_.lost_nodes) {
    for (const RankNote& note : e_.ranks)
      if (note.node == lost.node) ranks.push_back(note.rank);
    nodes.push_back(fmt::format("node {} is lost: {}; {}",
                                name_of(lost.node),
                                lost.reason,
                                lost.link_acks ? "its kernel still answers, so its agent is stopped or stuck"
                                               : "its agent or host is gone, or the link to it is cut"));
  }
  blame(FailureKind::kNodeLost, ranks, Confidence::kHigh);
  v_.node = e_.lost_nodes.front().node;
  sentence_ = capital(fmt::format("{}", fmt::join(nodes, ". Also, ")));
  if (!ranks.empty()) sentence_ += fmt::format(". With it went {}{}", rank_list(ranks), where_first());
  return true;
}

bool Judge::ended() {
  std::vector<EndNote> ends = first_ends();
  if (ends.empty()) return false;
  std::vector<int> ranks;
  for (const EndNote& end : ends) ranks.push_back(end.rank);
  const EndNote& first = ends.front();
  FailureKind kind = first.signaled ? FailureKind::kSignal : FailureKind::kExit;
  const bool oom = first.signaled && first.code == kSigKill && was_out_of_memory(first.rank);
  if (oom) kind = FailureKind::kOutOfMemory;
  blame(kind, ranks, Confidence::kHigh);
  v_.cause = first.cause;
  if (!oom && e_.crashes_at_step >= kSameCrash && fails_where_it_failed_before())
    kind = v_.kind = FailureKind::kDeterministicCrash;
  sentence_ = fmt::format("{} ended by {}: {}{}",
                          place_of(e_, ranks),
                          ranks.size() == 1 ? "itself" : "themselves",
                          first.cause,
                          where_first());
  if (oom) sentence_ += ". The kernel killed for lack of memory there: " + memory_limit_of(first.rank);
  if (kind == FailureKind::kDeterministicCrash)
    sentence_ += fmt::format(". It is failure {} in a row at this step, and the one before was the same",
                             e_.crashes_at_step);
  return true;
}

std::vector<EndNote> Judge::first_ends() const {
  std::vector<EndNote> found;
  for (const auto& list : e_.ends) {
    std::optional<double> first;
    for (const EndNote& end : list) {
      if (is_consequence(end) || (first && end.at_ms > *first + kTogetherMs)) continue;
      if (!first) first = end.at_ms;
      found.push_back(end);
    }
  }
  std::vector<EndNote> causes;
  const bool signaled = std::any_of(found.begin(), found.end(), [](const EndNote& e) { return e.signaled; });
  for (const EndNote& end : found) {
    if (signaled && !end.signaled) continue;
    const bool waited = std::any_of(found.begin(), found.end(), [&](const EndNote& other) {
      return other.rank != end.rank && (other.signaled || !signaled) &&
             graph_.reaches(end.rank, other.rank) && !graph_.reaches(other.rank, end.rank);
    });
    if (!waited || together(end, found)) causes.push_back(end);
  }
  std::stable_sort(
      causes.begin(), causes.end(), [](const EndNote& a, const EndNote& b) { return a.rank < b.rank; });
  return causes;
}

bool Judge::together(const EndNote& end, const std::vector<EndNote>& all) {
  return end.signaled && end.code == kSigKill &&
         std::count_if(all.begin(), all.end(), [&](const EndNote& other) {
           return other.signaled && other.code == end.code;
         }) > 1;
}

bool Judge::fails_where_it_failed_before() const {
  if (!e_.before || e_.before->phase != v_.phase || e_.before->cause != v_.cause) return false;
  const auto failed_before = [&](int rank) {
    return std::count(e_.before->ranks.begin(), e_.before->ranks.end(), rank) > 0;
  };
  return std::any_of(v_.culprits.begin(), v_.culprits.end(), failed_before);
}

bool Judge::was_out_of_memory(int rank) const {
  const auto note = notes_.find(rank);
  if (note == notes_.end()) return false;
  const auto kills = e_.oom_kills.find(note->second->node);
  return kills != e_.oom_kills.end() && kills->second.count > 0;
}

std::string Judge::memory_limit_of(int rank) const {
  const CgroupLimit& limit = e_.oom_kills.at(notes_.at(rank)->node).limit;
  if (limit.value == CgroupLimit::kNone) return "no cgroup of it has a limit, so the host itself had no more";
  return fmt::format(
      "its cgroup {} allows {:.0f} MiB", limit.group, static_cast<double>(limit.value) / (1 << 20));
}

bool Judge::is_frozen(const RankNote& note) {
  return note.wait_channel == kFrozenChannel;
}

}  // namespace llmtrain
