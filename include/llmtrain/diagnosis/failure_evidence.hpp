#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "llmtrain/diagnosis/verdict.hpp"
#include "llmtrain/monitor/rank_note.hpp"
#include "llmtrain/topology/mesh.hpp"

// What the leader has seen of one incarnation, as the verdict wants it. It collects and judges nothing.
namespace llmtrain {

class FailureEvidence {
 public:
  // A new incarnation: nothing is known of its ranks.
  void forget(const MeshShape& mesh);

  // Its last finished step stays known when later news of the rank say less.
  void saw(const RankNote& note);
  void ended(int node, const EndNote& end) { ends_[node].push_back(end); }
  void lost(LostNode node) { lost_nodes_.push_back(std::move(node)); }
  void overdue(int rank) { overdue_.push_back(rank); }
  void start_failed(const std::string& why) {
    if (start_failure_.empty()) start_failure_ = why;
  }
  // Processes on the node were killed for lack of memory.
  void killed_for_memory(int node, const MemoryKills& kills);

  Evidence make(const std::map<int, std::string>& hosts, int crashes_at_step) const;

 private:
  std::map<int, RankNote> ranks_;
  std::map<int, std::vector<EndNote>> ends_;  // by the node whose agent saw them
  std::vector<LostNode> lost_nodes_;
  std::string start_failure_;
  std::vector<int> overdue_;
  std::map<int, MemoryKills> oom_kills_;
  std::vector<GroupMembers> groups_;
};

}  // namespace llmtrain
