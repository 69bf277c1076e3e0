#pragma once

#include <vector>

#include "llmtrain/comm/trace.hpp"
#include "llmtrain/optim/optimizer.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"
#include "llmtrain/train/rank_context.hpp"

namespace llmtrain {

// Emits what this rank communicated and held, as comm_totals and memory events: the numbers by which a
// replicated run can be told from a distributed one.
void report_totals(RankContext& context,
                   const std::vector<CommTrace::Total>& totals,
                   const FlatParameters& parameters,
                   const Optimizer& optimizer);

}  // namespace llmtrain
