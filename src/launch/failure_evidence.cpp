#include "llmtrain/launch/failure_evidence.hpp"

namespace llmtrain {

void FailureEvidence::saw(const RankNote& note) {
  const auto [known, is_new] = ranks_.try_emplace(note.rank, note);
  if (is_new) return;
  RankNote merged = note;
  fill_in(merged, known->second);
  known->second = std::move(merged);
}

Evidence FailureEvidence::make(const std::map<int, std::string>& hosts, int crashes_at_step) const {
  Evidence evidence;
  for (const auto& [rank, note] : ranks_) evidence.ranks.push_back(note);
  evidence.hosts = hosts;
  for (const auto& [node, ends] : ends_) evidence.ends.push_back(ends);
  evidence.lost_nodes = lost_nodes_;
  evidence.overdue = overdue_;
  evidence.crashes_at_step = crashes_at_step;
  return evidence;
}

}  // namespace llmtrain
