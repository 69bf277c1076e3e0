#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/division.hpp"
#include "llmtrain/placement/sequence_cut.hpp"
#include "llmtrain/spec/enum_names.hpp"

#include "rules.hpp"

// What a job must offer so that ranks can share its sequences.
namespace llmtrain {
namespace {

std::int64_t chunks_of(SequenceMethod method, std::int64_t sp) {
  return is_balanced(method) && sp > 1 ? 2 * sp : sp;
}

// Ulysses deals the heads out that a rank of a tensor-parallel group has.
std::vector<std::string> objections_to_heads(const JobSpec& spec, std::int64_t sp) {
  const ModelSpec& m = spec.model;
  const std::int64_t tp = spec.parallelism.tp;
  const std::int64_t heads = m.num_heads / tp;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, m.num_kv_heads.value_or(m.num_heads) / tp);
  const char* const of_a_rank = tp > 1 ? " of a tp rank" : "";
  std::vector<std::string> list;
  if (heads % sp != 0)
    list.push_back(fmt::format(
        "ulysses deals heads out, and {} does not divide the {} query heads{}", sp, heads, of_a_rank));
  if (kv_heads % sp != 0 && sp % kv_heads != 0)
    list.push_back(fmt::format(
        "ulysses deals heads out, and {} neither divides the {} key heads{} nor is a multiple of them",
        sp,
        kv_heads,
        of_a_rank));
  return list;
}

// Why this degree does not fit; empty when it does.
std::vector<std::string> objections(const JobSpec& spec, std::int64_t sp) {
  const SequenceMethod method = spec.parallelism.sp_method;
  const std::int64_t chunks = chunks_of(method, sp);
  std::vector<std::string> list;
  if (spec.data.seq_length % chunks != 0)
    list.push_back(
        fmt::format("{} cuts a sequence into {} equal parts, and {} does not divide data.seq_length = {}",
                    name_of(method),
                    chunks,
                    chunks,
                    spec.data.seq_length));
  if (method == SequenceMethod::kUlysses)
    for (std::string& reason : objections_to_heads(spec, sp)) list.push_back(std::move(reason));
  return list;
}

// Those that hosts have devices for.
std::vector<std::int64_t> allowed_degrees(const JobSpec& spec) {
  constexpr std::int64_t kLargest = 1024;
  std::vector<std::int64_t> degrees;
  for (std::int64_t sp = 1; sp <= std::min(spec.data.seq_length, kLargest); ++sp)
    if (objections(spec, sp).empty()) degrees.push_back(sp);
  return degrees;
}

// The next length that this degree could cut, when the length is in its way.
std::string another_length(const JobSpec& spec) {
  const std::int64_t chunks = chunks_of(spec.parallelism.sp_method, spec.parallelism.sp);
  if (spec.data.seq_length % chunks == 0) return {};
  return fmt::format(", or a data.seq_length of {}", round_up(spec.data.seq_length, chunks));
}

}  // namespace

void check_sequence(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  if (p.sp == 1) {
    if (rules.given("parallelism.sp_method"))
      rules.warning("parallelism.sp_method", "has no effect: parallelism.sp is 1");
    return;
  }
  if (rules.spec.model.num_heads == 0) return;  // a missing size is reported elsewhere
  if (!rules.usable({"parallelism.sp",
                     "parallelism.sp_method",
                     "parallelism.tp",
                     "data.seq_length",
                     "model.preset",
                     "model.num_heads",
                     "model.num_kv_heads"}))
    return;
  const std::vector<std::string> reasons = objections(rules.spec, p.sp);
  if (reasons.empty()) return;
  rules.error("parallelism.sp",
              fmt::format("= {}: {}; allowed with this job: {}{}",
                          p.sp,
                          fmt::join(reasons, "; "),
                          fmt::join(allowed_degrees(rules.spec), ", "),
                          another_length(rules.spec)));
}

}  // namespace llmtrain
