#pragma once

#include <map>
#include <set>
#include <vector>

#include "llmtrain/diagnosis/verdict.hpp"

// Who waits for whom, from the newest collectives of all ranks.
//
// A rank inside call k of a group waits for the members that have not begun their k-th call there. Messages
// have no common number: who receives or sends waits for the members that are in no message themselves.
namespace llmtrain {

class WaitGraph {
 public:
  explicit WaitGraph(const Evidence& evidence);

  // The ranks for which `rank` waits, ascending; empty: for nobody that the boxes tell of.
  const std::set<int>& waits_for(int rank) const;
  bool waits(int rank) const { return !waits_for(rank).empty(); }
  // Whether `rank` waits for `other`, directly or through others.
  bool reaches(int rank, int other) const;

  std::vector<int> roots() const;   // waited for, and waiting for nobody
  std::vector<int> circle() const;  // ranks that wait for themselves through others
  std::vector<int> inside() const;  // in an unfinished call that every member has begun
  std::vector<int> members_of(const RankNote& note, const std::string& group) const;

 private:
  std::set<int> behind(const RankNote& note) const;

  const Evidence& evidence_;
  std::map<int, const RankNote*> notes_;
  std::map<int, std::set<int>> edges_;
};

bool is_message(const CollectiveNote& call);
// The newest call of `note` in `group`; null: none that its box still knows.
const CollectiveNote* newest_in(const RankNote& note, const std::string& group);

}  // namespace llmtrain
