#include "llmtrain/placement/sequence_cut.hpp"

#include "llmtrain/core/check.hpp"

namespace llmtrain {

std::vector<TokenRun> SequenceCut::runs() const {
  LLMTRAIN_CHECK(rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  const std::int64_t chunk = exact_div(length, chunks());
  std::vector<TokenRun> runs = {{.first = rank * chunk, .count = chunk}};
  if (chunks() > ranks) runs.push_back({.first = (chunks() - 1 - rank) * chunk, .count = chunk});
  return runs;
}

SequenceCut sequence_cut(const ParallelismSpec& parallelism, std::int64_t seq_length, int sp_rank) {
  return {.length = seq_length,
          .ranks = parallelism.sp,
          .rank = sp_rank,
          .balanced = is_balanced(parallelism.sp_method)};
}

}  // namespace llmtrain
