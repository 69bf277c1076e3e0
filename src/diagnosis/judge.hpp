#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/diagnosis/verdict.hpp"
#include "llmtrain/diagnosis/wait_graph.hpp"

// How a verdict is found: one pass over the evidence, from what proves most to what proves least.
//
// Each attempt fills the verdict and returns true, or leaves it alone.
namespace llmtrain {

// Whether an end is an answer to what happened elsewhere, or peaceful.
bool is_consequence(const EndNote& end);

class Judge {
 public:
  explicit Judge(const Evidence& evidence);
  FailureVerdict judge();

 private:
  // ---- who ended, stopped or was lost (judge_ends.cpp)
  // -----------------------------------------------------
  bool not_started();
  // Whoever speaks of a limit is to blame before those that lost it, even if it thinks that it lost a peer.
  bool ran_out();
  bool stopped();
  bool lost_node();
  bool ended();
  // Ends that no other end explains: the first of each receiver with what came together with it, without
  // those that waited for another one of them. Signals weigh more than exits: an exit can be an answer.
  std::vector<EndNote> first_ends() const;
  // Killed in one stroke: nobody had time to react to the other.
  static bool together(const EndNote& end, const std::vector<EndNote>& all);
  // Another rank, or the same one somewhere else, is bad luck and no bug that comes back.
  bool fails_where_it_failed_before() const;
  bool was_out_of_memory(int rank) const;
  std::string memory_limit_of(int rank) const;
  static bool is_frozen(const RankNote& note);

  // ---- calls that differ, are missing or cross (judge_calls.cpp)
  // -------------------------------------------
  bool disagreed();
  bool differing_boxes();
  // Who finished, or stopped on request, while others wait for its next call.
  bool left_early();
  // Nobody is behind everybody: ranks wait for each other in calls of different groups, or of one group in
  // another order.
  bool in_circle();
  // Who of a circle went on without a call. Groups of one axis make the same calls: where those outside the
  // circle's are one call behind a rank, it is ahead of its work; where they have come as far, who it waits
  // for left that call out.
  std::optional<int> out_of_step(const std::vector<int>& circle) const;
  // Nothing is left but the workers' own lists of who did not arrive.
  bool missed();
  bool is_waited_for(int rank) const;
  static const CollectiveNote* at_sequence(const RankNote& note, const std::string& group, std::uint64_t k);

  // ---- who makes no progress (judge_stalls.cpp)
  // ------------------------------------------------------------
  bool waited_for();
  bool all_arrived();
  bool overdue();
  // Whether another rank is inside the very call that `note` is in.
  bool shared(const RankNote& note) const;
  // Of several candidates those past their deadline, and of these the ones that stand still for longest.
  std::vector<int> longest_silent(std::vector<int> ranks) const;
  // Two ranks that each say the other one did not arrive.
  std::vector<int> cut_pair() const;

  // ---- the verdict and its text (verdict.cpp)
  // --------------------------------------------------------------
  bool crosses_nodes(const std::vector<int>& ranks) const;
  std::string name_of(int node) const;
  static std::string capital(std::string text);
  void blame(FailureKind kind, std::vector<int> ranks, Confidence confidence);
  const RankNote* first_culprit() const;
  // ", in backward of step 9" of the first culprit, and its call if it is in one.
  std::string where_first() const;
  void finish();
  void add_waiting();

  const Evidence& e_;
  WaitGraph graph_;
  std::map<int, const RankNote*> notes_;
  FailureVerdict v_;
  std::string sentence_;
};

}  // namespace llmtrain
