#include "llmtrain/diagnosis/verdict.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "llmtrain/diagnosis/incident.hpp"
#include "llmtrain/diagnosis/verdict_text.hpp"

#include "judge.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMaxPairs = 64;

}  // namespace

Judge::Judge(const Evidence& evidence) : e_(evidence), graph_(evidence) {
  for (const RankNote& note : e_.ranks) notes_[note.rank] = &note;
}

FailureVerdict Judge::judge() {
  if (!(not_started() || stopped() || lost_node() || ran_out() || ended() || disagreed() ||
        differing_boxes() || left_early() || waited_for() || in_circle() || all_arrived() || overdue() ||
        missed()))
    sentence_ = "No rank failed by itself, and neither the black boxes nor the workers' messages name one";
  finish();
  return v_;
}

bool Judge::crosses_nodes(const std::vector<int>& ranks) const {
  std::set<int> nodes;
  for (const int rank : ranks)
    if (notes_.contains(rank)) nodes.insert(notes_.at(rank)->node);
  return nodes.size() > 1;
}

std::string Judge::name_of(int node) const {
  const auto host = e_.hosts.find(node);
  return host == e_.hosts.end() || host->second.empty() ? std::to_string(node)
                                                        : fmt::format("{} ({})", node, host->second);
}

std::string Judge::capital(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() -= 'a' - 'A';
  return text;
}

void Judge::blame(FailureKind kind, std::vector<int> ranks, Confidence confidence) {
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

const RankNote* Judge::first_culprit() const {
  const auto found = v_.culprits.empty() ? notes_.end() : notes_.find(v_.culprits.front());
  return found == notes_.end() ? nullptr : found->second;
}

std::string Judge::where_first() const {
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

void Judge::finish() {
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

void Judge::add_waiting() {
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
