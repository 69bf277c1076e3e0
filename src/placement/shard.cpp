#include "llmtrain/placement/shard.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

std::int64_t product(const std::vector<std::int64_t>& extents, std::size_t first) {
  std::int64_t n = 1;
  for (std::size_t d = first; d < extents.size(); ++d) n *= extents[d];
  return n;
}

// The units [begin, end) of a rank, and how many ranks share them.
struct UnitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int replicas = 1;
};

UnitRange units_of(const ParamSpec& param, std::int64_t units, TensorPlace place) {
  if (units >= place.size) return {place.rank * units / place.size, (place.rank + 1) * units / place.size, 1};
  LLMTRAIN_CHECK(place.size % units == 0, "{} units of {} over {} ranks", units, param.name, place.size);
  const auto replicas = static_cast<int>(place.size / units);
  const std::int64_t unit = place.rank / replicas;
  return {unit, unit + 1, replicas};
}

}  // namespace

std::int64_t ParamShard::numel() const {
  return product(extent, 0);
}

ParamShard shard_of(const ParamSpec& param, TensorPlace place) {
  ParamShard shard{.offset = std::vector<std::int64_t>(param.shape.size(), 0),
                   .extent = param.shape,
                   .replica = place.rank,
                   .replicas = place.size,
                   .run = param.numel(),
                   .stride = param.numel()};
  if (!param.cut_dim) return shard;
  const auto dim = static_cast<std::size_t>(*param.cut_dim);
  const UnitRange units = units_of(param, exact_div(param.shape[dim], param.cut_unit), place);
  shard.offset[dim] = units.begin * param.cut_unit;
  shard.extent[dim] = (units.end - units.begin) * param.cut_unit;
  shard.replica = place.rank % units.replicas;
  shard.replicas = units.replicas;

  const std::int64_t inner = product(param.shape, dim + 1);
  shard.first = shard.offset[dim] * inner;
  shard.run = shard.extent[dim] * inner;
  shard.stride = param.shape[dim] * inner;
  return shard;
}

int kv_head_replicas(const ModelSpec& model, int tp) {
  const std::int64_t kv_heads = model.num_kv_heads.value();
  return tp > kv_heads ? static_cast<int>(exact_div(std::int64_t{tp}, kv_heads)) : 1;
}

}  // namespace llmtrain
