#include "llmtrain/diagnosis/failure_evidence.hpp"

#include <string_view>

namespace llmtrain {
namespace {

// The groups in which ranks wait for each other, under the names that workers give them.
std::vector<GroupMembers> groups_of(const MeshShape& mesh) {
  std::vector<GroupMembers> groups;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const auto add = [&](std::string_view name, std::vector<int> ranks) {
      if (ranks.size() > 1 && ranks.front() == rank) groups.push_back({std::string(name), std::move(ranks)});
    };
    for (const Axis axis : kAxes) add(to_string(axis), group_of(mesh, axis, rank));
    add("dp_sp", gradient_group_of(mesh, rank));
  }
  return groups;
}

}  // namespace

void FailureEvidence::saw(const RankNote& note) {
  const auto [known, is_new] = ranks_.try_emplace(note.rank, note);
  if (is_new) return;
  RankNote merged = note;
  fill_in(merged, known->second);
  known->second = std::move(merged);
}

void FailureEvidence::killed_for_memory(int node, const MemoryKills& kills) {
  MemoryKills& known = oom_kills_[node];
  known.count += kills.count;
  if (kills.limit.value < known.limit.value) known.limit = kills.limit;
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
  evidence.start_failure = start_failure_;
  evidence.overdue = overdue_;
  evidence.oom_kills = oom_kills_;
  evidence.groups = groups_;
  evidence.crashes_at_step = crashes_at_step;
  return evidence;
}

}  // namespace llmtrain
