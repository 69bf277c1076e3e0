#pragma once

#include <string>
#include <vector>

#include "llmtrain/diagnosis/verdict.hpp"

// The words of a verdict. They say what is known and what to do next; they find nothing out.
namespace llmtrain {

std::string rank_list(std::vector<int> ranks);                                  // "ranks 0, 2-4", "rank 1"
std::string place_of(const Evidence& evidence, const std::vector<int>& ranks);  // "rank 1 on node 0 (alpha)"
std::string describe(const CollectiveNote& call);  // "all_reduce 17 of dp (1024 bytes)"
std::string where(const RankNote& note);           // "in backward of step 9"
std::string advice(FailureKind kind);              // may be empty

}  // namespace llmtrain
