#pragma once

#include <functional>

#include "llmtrain/train/build.hpp"

// Every rank of a job as a thread of this process: built as a worker builds it, from a request, over shared
// memory; without an agent, so that its events go nowhere.
namespace llmtrain {

using RankBody = std::function<void(const RankContext& context, Rank& rank)>;

// Runs the body once for each rank, all at the same time. The first failure ends the waits of the other ranks
// and is thrown when all have left.
void run_proof_ranks(const JobSpec& spec, Plant plant, const RankBody& body);

}  // namespace llmtrain
