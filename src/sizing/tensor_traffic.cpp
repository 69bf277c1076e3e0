#include "llmtrain/sizing/tensor_traffic.hpp"

#include <algorithm>

#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kLossBytes = 3 * 8;  // of a token: three fp64

// `crossings` sums of every token's activation.
Traffic sums(const ModelSpec& model, DType compute, std::int64_t tokens, std::int64_t crossings) {
  const auto row = model.hidden_size * static_cast<std::int64_t>(bytes_of(compute));
  return {.calls = crossings, .bytes = crossings * tokens * row};
}

Traffic losses(std::int64_t tokens, std::int64_t chunk_tokens) {
  return {.calls = ceil_div(tokens, std::min(chunk_tokens, tokens)), .bytes = tokens * kLossBytes};
}

}  // namespace

TensorTraffic& TensorTraffic::operator+=(const TensorTraffic& other) {
  all_reduce.calls += other.all_reduce.calls;
  all_reduce.bytes += other.all_reduce.bytes;
  all_gather.calls += other.all_gather.calls;
  all_gather.bytes += other.all_gather.bytes;
  return *this;
}

TensorTraffic training_traffic(const ModelSpec& model,
                               DType compute,
                               std::int64_t tokens,
                               std::int64_t chunk_tokens) {
  return {.all_reduce = sums(model, compute, tokens, 4 * model.num_layers + 2),
          .all_gather = losses(tokens, chunk_tokens)};
}

TensorTraffic forward_traffic(const ModelSpec& model,
                              DType compute,
                              std::int64_t tokens,
                              std::int64_t chunk_tokens) {
  return {.all_reduce = sums(model, compute, tokens, 2 * model.num_layers + 1),
          .all_gather = losses(tokens, chunk_tokens)};
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
