#include "llmtrain/sizing/tensor_traffic.hpp"

#include <algorithm>

#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kLossBytes = 3 * 8;  // of a token: three fp64

// `times` collectives that take a row of every token from each rank.
Traffic rows(const ModelSpec& model, const TensorPass& pass, std::int64_t tokens, std::int64_t times) {
  const auto row = model.hidden_size * static_cast<std::int64_t>(bytes_of(pass.compute));
  return {.calls = times, .bytes = times * tokens * row};
}

// Borders crossed: `summed` sums over ranks and `gathered` gathers, where rows are cut; losses once.
TensorTraffic crossings(const ModelSpec& model,
                        const TensorPass& pass,
                        std::int64_t summed,
                        std::int64_t gathered) {
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
// forward and gathers backward, the head the reverse.
TensorTraffic training_traffic(const ModelSpec& model, const TensorPass& pass) {
  const std::int64_t ends = (pass.has_embedding ? 1 : 0) + (pass.has_head ? 1 : 0);
  const std::int64_t again = pass.recomputed_in_full;
  return crossings(model, pass, 4 * model.num_layers + ends + again, 6 * model.num_layers + ends + 2 * again);
}

TensorTraffic forward_traffic(const ModelSpec& model, const TensorPass& pass) {
  return crossings(model,
                   pass,
                   2 * model.num_layers + (pass.has_embedding ? 1 : 0),
                   2 * model.num_layers + (pass.has_head ? 1 : 0));
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
