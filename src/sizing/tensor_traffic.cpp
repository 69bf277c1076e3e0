#include "llmtrain/sizing/tensor_traffic.hpp"

#include <algorithm>

#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kLossBytes = 3 * 8;  // of a token: three fp64

// Borders crossed at once, and beside a product, which chunks are for.
struct Crossed {
  std::int64_t at_once = 0;
  std::int64_t in_chunks = 0;
};

// Every crossing takes a row of each of `tokens` tokens from each rank.
Traffic rows(const ModelSpec& model, const TensorPass& pass, std::int64_t tokens, const Crossed& crossed) {
  const auto row = model.hidden_size * static_cast<std::int64_t>(bytes_of(pass.compute));
  const std::int64_t own = pass.shard_sequence ? exact_div(pass.tokens, pass.tp) : pass.tokens;
  return {.calls = crossed.at_once + crossed.in_chunks * std::min(pass.overlap_chunks, own),
          .bytes = (crossed.at_once + crossed.in_chunks) * tokens * row};
}

// `summed` sums over ranks and `gathered` gathers, where rows are cut; losses once.
TensorTraffic crossings(const ModelSpec& model,
                        const TensorPass& pass,
                        const Crossed& summed,
                        const Crossed& gathered) {
  TensorTraffic traffic;
  if (pass.has_head)
    traffic.all_gather = {.calls = ceil_div(pass.tokens, std::min(pass.chunk_tokens, pass.tokens)),
                          .bytes = pass.tokens * kLossBytes};
  if (!pass.shard_sequence) {
    traffic.all_reduce = rows(model, pass, pass.tokens, summed);
    return traffic;
  }
  traffic.reduce_scatter = rows(model, pass, pass.tokens, summed);
  const Traffic gathers = rows(model, pass, exact_div(pass.tokens, pass.tp), gathered);
  traffic.all_gather.calls += gathers.calls;
  traffic.all_gather.bytes += gathers.bytes;
  return traffic;
}

}  // namespace

TensorTraffic& TensorTraffic::operator+=(const TensorTraffic& other) {
  all_reduce.calls += other.all_reduce.calls;
  all_reduce.bytes += other.all_reduce.bytes;
  all_gather.calls += other.all_gather.calls;
  all_gather.bytes += other.all_gather.bytes;
  reduce_scatter.calls += other.reduce_scatter.calls;
  reduce_scatter.bytes += other.reduce_scatter.bytes;
  return *this;
}

// Per block two sums forward and two backward, two gathers forward and four backward; the embedding sums
// forward and gathers backward, the head the reverse. Beside products: all that is forward in a block, and
// the gathers of gradients on the way back in. The rest of backward has the weight gradient to hide behind.
TensorTraffic training_traffic(const ModelSpec& model, const TensorPass& pass) {
  const std::int64_t ends = (pass.has_embedding ? 1 : 0) + (pass.has_head ? 1 : 0);
  const std::int64_t halves = 2 * model.num_layers;
  const std::int64_t again = pass.recomputed_in_full;
  return crossings(model,
                   pass,
                   {.at_once = halves + ends, .in_chunks = halves + again},
                   {.at_once = halves + ends, .in_chunks = 2 * halves + 2 * again});
}

TensorTraffic forward_traffic(const ModelSpec& model, const TensorPass& pass) {
  const std::int64_t halves = 2 * model.num_layers;
  return crossings(model,
                   pass,
                   {.at_once = pass.has_embedding ? 1 : 0, .in_chunks = halves},
                   {.at_once = pass.has_head ? 1 : 0, .in_chunks = halves});
}

ReplicaTraffic replica_traffic(const std::vector<ParamSpec>& table, DType compute, int tp) {
  const std::int64_t main_bytes = compute == DType::kFp64 ? 8 : 4;
  ReplicaTraffic traffic;
  if (tp == 1) return traffic;
  traffic.group = {.calls = 1, .bytes = 8};
  for (const ParamSpec& param : table) {
    const ParamShard shard = shard_of(param, {.rank = 0, .size = tp});
    if (!param.partial_grad || shard.replicas == 1) continue;
    Traffic& axis = shard.replicas == tp ? traffic.group : traffic.replicas;
    axis.calls += 1;
    axis.bytes += shard.numel() * main_bytes;
  }
  return traffic;
}

}  // namespace llmtrain
