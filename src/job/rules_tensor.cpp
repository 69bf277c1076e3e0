#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/division.hpp"

#include "rules.hpp"

// What a model must offer to be cut over tensor-parallel ranks.
namespace llmtrain {
namespace {

// Why this degree does not fit; empty when it does.
std::vector<std::string> objections(const ModelSpec& m, std::int64_t tp) {
  const std::int64_t kv_heads = m.num_kv_heads.value_or(m.num_heads);
  const std::int64_t ffn = m.ffn_hidden_size.value_or(0);
  std::vector<std::string> list;
  if (m.num_heads % tp != 0) list.push_back(fmt::format("does not divide model.num_heads = {}", m.num_heads));
  if (kv_heads % tp != 0 && tp % kv_heads != 0)
    list.push_back(fmt::format("neither divides model.num_kv_heads = {} nor is a multiple of it", kv_heads));
  if (ffn % tp != 0) list.push_back(fmt::format("does not divide model.ffn_hidden_size = {}", ffn));
  if (m.vocab_size < tp) list.push_back(fmt::format("is more than model.vocab_size = {}", m.vocab_size));
  return list;
}

// Those that hosts have devices for.
std::vector<std::int64_t> allowed_degrees(const ModelSpec& m) {
  constexpr std::int64_t kLargest = 1024;
  std::vector<std::int64_t> degrees;
  for (std::int64_t tp = 1; tp <= std::min(m.num_heads, kLargest); ++tp)
    if (objections(m, tp).empty()) degrees.push_back(tp);
  return degrees;
}

void check_shard_sequence(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  const std::int64_t seq_length = rules.spec.data.seq_length;
  if (!p.tp_shard_sequence ||
      !rules.usable({"parallelism.tp_shard_sequence", "parallelism.tp", "parallelism.sp", "data.seq_length"}))
    return;
  const std::int64_t parts = std::int64_t{p.tp} * p.sp;
  if (p.tp == 1)
    rules.warning("parallelism.tp_shard_sequence", "has no effect: parallelism.tp is 1");
  else if (seq_length % parts != 0)
    rules.error("parallelism.tp_shard_sequence",
                fmt::format("= true: parallelism.tp{} = {} does not divide data.seq_length = {}; allowed: a "
                            "data.seq_length of {}, or false",
                            p.sp > 1 ? " x parallelism.sp" : "",
                            parts,
                            seq_length,
                            round_up(seq_length, parts)));
}

void check_cut(Rules& rules) {
  const ModelSpec& m = rules.spec.model;
  const int tp = rules.spec.parallelism.tp;
  if (tp == 1 || m.num_heads == 0 || m.vocab_size == 0) return;  // a missing size is reported elsewhere
  if (!rules.usable({"parallelism.tp",
                     "model.preset",
                     "model.num_heads",
                     "model.num_kv_heads",
                     "model.hidden_size",
                     "model.ffn_hidden_size",
                     "model.vocab_size"}))
    return;
  const std::vector<std::string> reasons = objections(m, tp);
  if (reasons.empty()) return;
  rules.error("parallelism.tp",
              fmt::format("= {}: {}; allowed with this model: {}",
                          tp,
                          fmt::join(reasons, ", "),
                          fmt::join(allowed_degrees(m), ", ")));
}

void check_overlap(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  if (rules.usable({"parallelism.tp_overlap_chunks", "parallelism.tp"}) && p.tp == 1 &&
      p.tp_overlap_chunks.value_or(1) > 1)
    rules.warning("parallelism.tp_overlap_chunks", "has no effect: parallelism.tp is 1");
}

}  // namespace

void check_tensor(Rules& rules) {
  check_cut(rules);
  check_shard_sequence(rules);
  check_overlap(rules);
}

}  // namespace llmtrain
