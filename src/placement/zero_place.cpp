#include "llmtrain/placement/zero_place.hpp"

#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

int gradient_group_size(const ParallelismSpec& p) {
  return p.dp.value() * p.sp;
}

}  // namespace

int zero_stage(const ParallelismSpec& p) {
  return gradient_group_size(p) == 1 || p.dp_shard == 1 ? 0 : p.zero_stage;
}

ZeroPlace zero_place(const ParallelismSpec& p, int rank) {
  const int stage = zero_stage(p);
  const int group = gradient_group_size(p);
  const int sharers = stage > 0 ? p.dp_shard.value_or(group) : group;
  return {.stage = stage,
          .rank = rank,
          .size = sharers,
          .copies = static_cast<int>(exact_div(group, sharers)),
          .keeps_weights = !p.reshard_after_forward};
}

}  // namespace llmtrain
