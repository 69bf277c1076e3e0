#include "llmtrain/launch/failure_evidence.hpp"

#include <set>

namespace llmtrain {
namespace {

// The groups in which ranks wait for each other, under the names that workers give them.
std::vector<GroupMembers> groups_of(const MeshShape& mesh) {
  std::set<std::pair<std::string, std::vector<int>>> groups;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    for (const Axis axis : kAxes) groups.emplace(to_string(axis), group_of(mesh, axis, rank));
    groups.emplace("dp_sp", gradient_group_of(mesh, rank));
  }
  std::vector<GroupMembers> result;
  for (const auto& [name, ranks] : groups)
    if (ranks.size() > 1) result.push_back({name, ranks});
  return result;
}

}  // namespace

void FailureEvidence::saw(const RankNote& note) {
  const auto [known, is_new] = ranks_.try_emplace(note.rank, note);
  if (is_new) return;
  RankNote merged = note;
  fill_in(merged, known->second);
  known->second = std::move(merged);
}

void FailureEvidence::forget(const MeshShape& mesh) {
  *this = FailureEvidence();
  groups_ = groups_of(mesh);
}

Evidence FailureEvidence::make(const std::map<int, std::string>& hosts, int crashes_at_step) const {
  Evidence evidence;
  for (const auto& [rank, note] : ranks_) evidence.ranks.push_back(note);
  evidence.hosts = hosts;
  for (const auto& [node, ends] : ends_) evidence.ends.push_back(ends);
  evidence.lost_nodes = lost_nodes_;
  evidence.overdue = overdue_;
  evidence.oom_kills = oom_kills_;
  evidence.groups = groups_;
  evidence.crashes_at_step = crashes_at_step;
  return evidence;
}

}  // namespace llmtrain
