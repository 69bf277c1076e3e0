#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/placement/flat_layout.hpp"

#include "rules.hpp"

// What ranks of the gradient group (dp x sp) may share, and how they reduce gradients.
namespace llmtrain {
namespace {

int gradient_group(const ParallelismSpec& p) {
  return p.dp.value_or(1) * p.sp;
}

bool shards(const ParallelismSpec& p) {
  return p.zero_stage > 0 && p.dp_shard != 1 && gradient_group(p) > 1;
}

std::vector<int> divisors_of(int n) {
  std::vector<int> divisors;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) divisors.push_back(d);
  return divisors;
}

void check_shard(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  if (!p.dp_shard || !rules.usable({"parallelism", "launch"})) return;
  const int group = gradient_group(p);
  if (p.zero_stage == 0)
    rules.warning("parallelism.dp_shard", "has no effect: parallelism.zero_stage is 0, nothing is sharded");
  else if (group % *p.dp_shard != 0)
    rules.error("parallelism.dp_shard",
                fmt::format("= {}: does not divide parallelism.dp = {}; allowed: {}, or auto",
                            *p.dp_shard,
                            group,
                            fmt::join(divisors_of(group), ", ")));
  else if (*p.dp_shard == 1 && group > 1)
    rules.warning("parallelism.zero_stage",
                  "has no effect: parallelism.dp_shard is 1, every rank has a copy");
}

void check_group(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  if (!rules.usable({"parallelism.dp", "parallelism.sp"}) || gradient_group(p) > 1) return;
  if (p.zero_stage > 0 && rules.usable({"parallelism.zero_stage"}))
    rules.warning("parallelism.zero_stage",
                  "has no effect: parallelism.dp is 1, nobody is there to share with");
  for (const char* field : {"parallelism.overlap", "parallelism.bucket_size"})
    if (rules.given(field))
      rules.warning(field, "has no effect: parallelism.dp is 1, gradients are not reduced");
}

void check_reshard(Rules& rules) {
  if (rules.given("parallelism.reshard_after_forward") && rules.spec.parallelism.zero_stage < 3 &&
      rules.usable({"parallelism.zero_stage"}))
    rules.warning("parallelism.reshard_after_forward",
                  "has no effect: only parallelism.zero_stage 3 gathers weights");
}

// What is sharded is reduced as the ranges that ranks own of a whole segment.
void check_bucket(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  if (!p.bucket_size || !shards(p) || !rules.usable({"parallelism", "model", "data.seq_length"})) return;
  std::int64_t largest = 0;
  for (const FlatSegment& segment :
       flat_layout(parameter_table(rules.spec.model), TensorPlace{.rank = 0, .size = p.tp}))
    largest = std::max(largest, segment.elements);
  if (*p.bucket_size < largest)
    rules.error(
        "parallelism.bucket_size",
        fmt::format(
            "= {}: under parallelism.zero_stage = {} a layer is reduced whole, and the largest has {} "
            "elements on a rank; allowed: at least {}, auto, or parallelism.zero_stage = 0",
            *p.bucket_size,
            p.zero_stage,
            largest,
            largest));
}

}  // namespace

void check_zero(Rules& rules) {
  check_group(rules);
  check_shard(rules);
  check_reshard(rules);
  check_bucket(rules);
}

}  // namespace llmtrain
