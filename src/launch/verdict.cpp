#include "llmtrain/launch/verdict.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/launch/process_state.hpp"
#include "llmtrain/launch/verdict_text.hpp"
#include "llmtrain/launch/wait_graph.hpp"
#include "llmtrain/launch/worker_reports.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMaxPairs = 64;
constexpr double kTogetherMs = 200;  // ends of one receiver that are this close are one event
constexpr int kSameCrash = 2;        // crashes at one step from which on chance is ruled out
constexpr int kSigKill = 9;

bool is_consequence(const EndNote& end) {
  if (end.by_agent) return true;
  if (end.signaled) return false;
  return end.code == to_int(WorkerExit::kLostPeer) || end.code == to_int(ExitCode::kHang) ||
         end.code == to_int(ExitCode::kDone) || end.code == to_int(WorkerExit::kStoppedSaved) ||
         end.code == to_int(WorkerExit::kStoppedUnsaved);
}

// One pass over the evidence; each attempt fills the verdict or leaves it alone.
class Judge {
 public:
  explicit Judge(const Evidence& evidence) : e_(evidence), graph_(evidence) {
    for (const RankNote& note : e_.ranks) notes_[note.rank] = &note;
  }

  FailureVerdict judge() {
    if (!(not_started() || stopped() || lost_node() || ran_out() || ended() || disagreed() ||
          differing_boxes() || left_early() || waited_for() || in_circle() || all_arrived() || overdue() ||
          missed()))
      sentence_ = "No rank failed by itself, and neither the black boxes nor the workers' messages name one";
    finish();
    return v_;
  }

 private:
  // ---- attempts, in the order of what they prove --------------------------------------------------------
  bool not_started() {
    if (e_.start_failure.empty()) return false;
    v_.confidence = Confidence::kHigh;
    sentence_ = "Workers could not be started on " + e_.start_failure;
    return true;
  }

  // Whoever speaks of a limit is to blame before those that lost it, even if it thinks that it lost a peer.
  bool ran_out() {
    std::vector<int> ranks;
    std::string limit;
    for (const auto& list : e_.ends)
      for (const EndNote& end : list) {
        const bool open =
            !end.signaled && !end.by_agent &&
            (end.code == to_int(ExitCode::kInternal) || end.code == to_int(WorkerExit::kLostPeer));
        for (const WorkerReport& report : e_.reports) {
          const auto at =
              report.rank == end.rank && open ? report.text.find(kLimitPrefix) : std::string::npos;
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

  bool stopped() {
    std::vector<int> ranks;
    for (const RankNote& note : e_.ranks)
      if (note.process_state == "T" || note.process_state == "t" || is_frozen(note))
        ranks.push_back(note.rank);
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

  bool lost_node() {
    if (e_.lost_nodes.empty()) return false;
    std::vector<int> ranks;
    std::vector<std::string> nodes;
    for (const LostNode& lost : e_.lost_nodes) {
      for (const RankNote& note : e_.ranks)
        if (note.node == lost.node) ranks.push_back(note.rank);
      nodes.push_back(fmt::format("node {} is lost: {}; {}",
                                  name_of(lost.node),
                                  lost.reason,
                                  lost.link_acks
                                      ? "its kernel still answers, so its agent is stopped or stuck"
                                      : "its agent or host is gone, or the link to it is cut"));
    }
    blame(FailureKind::kNodeLost, ranks, Confidence::kHigh);
    v_.node = e_.lost_nodes.front().node;
    sentence_ = capital(fmt::format("{}", fmt::join(nodes, ". Also, ")));
    if (!ranks.empty()) sentence_ += fmt::format(". With it went {}{}", rank_list(ranks), where_first());
    return true;
  }

  bool ended() {
    std::vector<EndNote> ends = first_ends();
    if (ends.empty()) return false;
    std::vector<int> ranks;
    for (const EndNote& end : ends) ranks.push_back(end.rank);
    const EndNote& first = ends.front();
    FailureKind kind = first.signaled ? FailureKind::kSignal : FailureKind::kExit;
    const bool oom = first.signaled && first.code == kSigKill && was_out_of_memory(first.rank);
    if (oom) kind = FailureKind::kOutOfMemory;
    blame(kind, ranks, Confidence::kHigh);
    if (!oom && e_.crashes_at_step >= kSameCrash && fails_where_it_failed_before())
      kind = v_.kind = FailureKind::kDeterministicCrash;
    sentence_ = fmt::format("{} ended by itself: {}{}", place_of(e_, ranks), first.cause, where_first());
    if (oom) sentence_ += ". The kernel killed for lack of memory there: " + memory_limit_of(first.rank);
    if (kind == FailureKind::kDeterministicCrash)
      sentence_ += fmt::format(". It is failure {} in a row at this step, and the one before was the same",
                               e_.crashes_at_step);
    return true;
  }

  bool disagreed() {
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

  bool differing_boxes() {
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

  // Who finished, or stopped on request, while others wait for its next call.
  bool left_early() {
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

  bool waited_for() {
    const std::vector<int> ranks = longest_silent(graph_.roots());
    if (ranks.empty()) return false;
    const RankNote& note = *notes_.at(ranks.front());
    FailureKind kind = FailureKind::kHangCompute;
    std::string what = "makes no progress";
    if (note.phase == to_string(Phase::kDataWait)) {
      kind = FailureKind::kHangInput;
      what = "gets no data";
    } else if (note.waiting && shared(note)) {
      kind = crosses_nodes(graph_.members_of(note, note.waiting->group)) ? FailureKind::kTransport
                                                                         : FailureKind::kHangCollective;
      what =
          fmt::format("does not come out of {}, which all its members have begun", describe(*note.waiting));
    }
    blame(kind, ranks, ranks.size() == 1 ? Confidence::kHigh : Confidence::kMedium);
    sentence_ = fmt::format("{} {}{}", place_of(e_, ranks), what, where_first());
    if (!note.wait_channel.empty() && note.wait_channel != "0")
      sentence_ += fmt::format(" (process state {}, kernel wait channel {})",
                               note.process_state.empty() ? "unknown" : note.process_state,
                               note.wait_channel);
    return true;
  }

  // Nobody is behind everybody: ranks wait for each other in calls of different groups, or of one group in
  // another order.
  bool in_circle() {
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
    const bool one_odd =
        odd.size() == 1 && (out_of_step(circle) || (circle.size() > 2 && inside.size() == 2));
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

  // Who of a circle went on without a call. Groups of one axis make the same calls: where those outside the
  // circle's are one call behind a rank, it is ahead of its work; where they have come as far, who it waits
  // for left that call out.
  std::optional<int> out_of_step(const std::vector<int>& circle) const {
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

  bool all_arrived() {
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

  bool overdue() {
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
    sentence_ = fmt::format(
        "{} {}{}", place_of(e_, ranks), input ? "gets no data" : "makes no progress", where_first());
    if (call) sentence_ += fmt::format(", inside {}", describe(*note.waiting));
    return true;
  }

  // Nothing is left but the workers' own lists of who did not arrive.
  bool missed() {
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

  // ---- helpers ------------------------------------------------------------------------------------------
  // Ends that no other end explains: the first of each receiver with what came together with it, without
  // those that waited for another one of them. Signals weigh more than exits: an exit can be an answer.
  std::vector<EndNote> first_ends() const {
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
    const bool signaled =
        std::any_of(found.begin(), found.end(), [](const EndNote& e) { return e.signaled; });
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

  // Killed in one stroke: nobody had time to react to the other.
  static bool together(const EndNote& end, const std::vector<EndNote>& all) {
    return end.signaled && end.code == kSigKill &&
           std::count_if(all.begin(), all.end(), [&](const EndNote& other) {
             return other.signaled && other.code == end.code;
           }) > 1;
  }

  // Another rank, or the same one somewhere else, is bad luck and no bug that comes back.
  bool fails_where_it_failed_before() const {
    if (!e_.before || e_.before->phase != v_.phase) return false;
    const auto failed_before = [&](int rank) {
      return std::count(e_.before->ranks.begin(), e_.before->ranks.end(), rank) > 0;
    };
    return std::any_of(v_.culprits.begin(), v_.culprits.end(), failed_before);
  }

  bool was_out_of_memory(int rank) const {
    const auto note = notes_.find(rank);
    if (note == notes_.end()) return false;
    const auto kills = e_.oom_kills.find(note->second->node);
    return kills != e_.oom_kills.end() && kills->second.count > 0;
  }

  std::string memory_limit_of(int rank) const {
    const CgroupLimit& limit = e_.oom_kills.at(notes_.at(rank)->node).limit;
    if (limit.value == CgroupLimit::kNone)
      return "no cgroup of it has a limit, so the host itself had no more";
    return fmt::format(
        "its cgroup {} allows {:.0f} MiB", limit.group, static_cast<double>(limit.value) / (1 << 20));
  }

  static bool is_frozen(const RankNote& note) { return note.wait_channel == kFrozenChannel; }

  bool is_waited_for(int rank) const {
    return std::any_of(e_.ranks.begin(), e_.ranks.end(), [&](const RankNote& note) {
      return graph_.waits_for(note.rank).contains(rank);
    });
  }

  // Whether another rank is inside the very call that `note` is in.
  bool shared(const RankNote& note) const {
    for (const int rank : graph_.members_of(note, note.waiting->group)) {
      const auto peer = notes_.find(rank);
      if (rank == note.rank || peer == notes_.end() || !peer->second->waiting) continue;
      const CollectiveNote& theirs = *peer->second->waiting;
      if (theirs.group == note.waiting->group && theirs.sequence == note.waiting->sequence) return true;
    }
    return false;
  }

  static const CollectiveNote* at_sequence(const RankNote& note, const std::string& group, std::uint64_t k) {
    if (note.waiting && note.waiting->group == group && note.waiting->sequence == k) return &*note.waiting;
    const CollectiveNote* const newest = newest_in(note, group);
    return newest != nullptr && newest->sequence == k ? newest : nullptr;
  }

  // Of several candidates those past their deadline, and of these the ones that stand still for longest.
  std::vector<int> longest_silent(std::vector<int> ranks) const {
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

  bool crosses_nodes(const std::vector<int>& ranks) const {
    std::set<int> nodes;
    for (const int rank : ranks)
      if (notes_.contains(rank)) nodes.insert(notes_.at(rank)->node);
    return nodes.size() > 1;
  }

  // Two ranks that each say the other one did not arrive.
  std::vector<int> cut_pair() const {
    std::map<int, std::set<int>> missing;
    for (const WorkerReport& report : e_.reports) missing[report.rank].merge(missing_ranks(report.text));
    for (const auto& [rank, others] : missing)
      for (const int other : others)
        if (missing.contains(other) && missing.at(other).contains(rank))
          return {std::min(rank, other), std::max(rank, other)};
    return {};
  }

  std::string name_of(int node) const {
    const auto host = e_.hosts.find(node);
    return host == e_.hosts.end() || host->second.empty() ? std::to_string(node)
                                                          : fmt::format("{} ({})", node, host->second);
  }

  static std::string capital(std::string text) {
    if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() -= 'a' - 'A';
    return text;
  }

  void blame(FailureKind kind, std::vector<int> ranks, Confidence confidence) {
    v_.kind = kind;
    std::sort(ranks.begin(), ranks.end());
    v_.culprits = std::move(ranks);
    v_.confidence = confidence;
    std::set<int> nodes;
    for (const int rank : v_.culprits)
      if (notes_.contains(rank)) nodes.insert(notes_.at(rank)->node);
    if (nodes.size() == 1) v_.node = *nodes.begin();
    if (first_culprit() == nullptr) return;
    const RankNote& note = *first_culprit();
    v_.phase = note.phase;
    v_.last_step = note.step;
    v_.collective = note.waiting ? note.waiting : note.collective;
  }

  const RankNote* first_culprit() const {
    const auto found = v_.culprits.empty() ? notes_.end() : notes_.find(v_.culprits.front());
    return found == notes_.end() ? nullptr : found->second;
  }

  // ", in backward of step 9" of the first culprit, and its call if it is in one.
  std::string where_first() const {
    if (first_culprit() == nullptr) return {};
    const RankNote& note = *first_culprit();
    std::string text = note.phase.empty() ? std::string() : ", " + where(note);
    const bool in_call = note.waiting && v_.kind != FailureKind::kTransport &&
                         v_.kind != FailureKind::kHangCollective && v_.kind != FailureKind::kHangCompute;
    if (in_call) text += fmt::format(", inside {}", describe(*note.waiting));
    if (!in_call && note.collective && note.collective->finished)
      text += fmt::format("; its last call was {}", describe(*note.collective));
    return text;
  }

  void finish() {
    if (v_.node && e_.hosts.contains(*v_.node)) v_.host = e_.hosts.at(*v_.node);
    v_.paragraph = capital(sentence_) + ".";
    add_waiting();
    if (const RankNote* const first = first_culprit(); first != nullptr && !first->stack.empty())
      v_.paragraph += fmt::format(" Its innermost frame: {}.", first->stack.front());
    if (!e_.unkillable.empty())
      v_.paragraph += fmt::format(
          " {} did not die of SIGKILL: the kernel holds {} (a driver, a dead file system, a "
          "frozen cgroup), and the node needs attention.",
          capital(place_of(e_, e_.unkillable)),
          e_.unkillable.size() == 1 ? "it" : "them");
    if (const std::string next = advice(v_.kind); !next.empty()) v_.paragraph += " " + next + ".";
    if (v_.confidence == Confidence::kLow && v_.kind != FailureKind::kUnknown)
      v_.paragraph += " This is a guess: the evidence is thin.";
  }

  void add_waiting() {
    const std::set<int> blamed(v_.culprits.begin(), v_.culprits.end());
    std::vector<int> waiters;
    std::set<std::string> calls;
    for (const RankNote& note : e_.ranks) {
      const std::set<int>& peers = graph_.waits_for(note.rank);
      for (const int peer : peers)
        if (v_.waiting.size() < kMaxPairs) v_.waiting.emplace_back(note.rank, peer);
      const bool direct =
          std::any_of(peers.begin(), peers.end(), [&](int peer) { return blamed.contains(peer); });
      if (!direct || blamed.contains(note.rank)) continue;
      waiters.push_back(note.rank);
      calls.insert(describe(*note.waiting));
    }
    if (waiters.empty()) return;
    const std::string more =
        calls.size() > 1 ? fmt::format(" and {} other call{}", calls.size() - 1, calls.size() > 2 ? "s" : "")
                         : "";
    v_.paragraph += fmt::format(" {} {} for {} in {}{}.",
                                capital(rank_list(waiters)),
                                waiters.size() == 1 ? "waits" : "wait",
                                blamed.size() == 1 ? "it" : "them",
                                *calls.begin(),
                                more);
  }

  const Evidence& e_;
  WaitGraph graph_;
  std::map<int, const RankNote*> notes_;
  FailureVerdict v_;
  std::string sentence_;
};

}  // namespace

FailureVerdict judge(const Evidence& evidence) {
  return Judge(evidence).judge();
}

void record(const FailureVerdict& verdict, Incident& incident) {
  incident.first_cause = verdict.culprits;
  incident.kind = to_string(verdict.kind);
  incident.confidence = to_string(verdict.confidence);
  incident.verdict = verdict.paragraph;
  incident.node = verdict.node;
  incident.host = verdict.host;
  incident.waiting_for = verdict.waiting;
}

}  // namespace llmtrain
