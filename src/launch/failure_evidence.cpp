#include "llmtrain/launch/failure_evidence.hpp"

namespace llmtrain {

void FailureEvidence::saw(const RankNote& note) {
  const auto [known, is_new] = ranks_.try_emplace(note.rank, note);
  if (is_new) return;
  RankNote merged = note;
  // A stack and the state of the process were read before the kill; what is read afterwards lacks them.
  if (merged.stack.empty()) merged.stack = std::move(known->second.stack);
  if (merged.process_state.empty()) merged.process_state = std::move(known->second.process_state);
  if (merged.wait_channel.empty()) merged.wait_channel = std::move(known->second.wait_channel);
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
