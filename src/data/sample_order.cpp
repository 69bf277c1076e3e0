#include "llmtrain/data/sample_order.hpp"

#include <cmath>

#include <fmt/format.h>

#include "llmtrain/data/hash.hpp"
#include "llmtrain/data/permutation.hpp"

namespace llmtrain {
namespace {

Result<std::optional<std::int64_t>> limit_of(const SourceShape& source) {
  if (!source.max_epochs) return std::optional<std::int64_t>();
  const double limit = std::floor(*source.max_epochs * static_cast<double>(source.num_samples));
  if (!(limit >= 1)) {
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("{}: max_epochs {} of {} samples leaves none",
                             source.name,
                             *source.max_epochs,
                             source.num_samples),
                 "raise max_epochs, or remove the source"};
  }
  if (limit > 0x1p60) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(static_cast<std::int64_t>(limit));
}

}  // namespace

Result<SampleOrder> SampleOrder::make(std::vector<SourceShape> sources, std::uint64_t seed, Kind kind) {
  std::vector<BlendEntry> entries;
  std::vector<std::int64_t> sizes;
  for (const SourceShape& source : sources) {
    if (source.num_samples < 1) {
      return Error{ErrorCode::kData, fmt::format("{}: holds no sample", source.name), "remove the source"};
    }
    LLMTRAIN_ASSIGN(limit, limit_of(source));
    entries.push_back({source.name, source.weight, limit});
    sizes.push_back(source.num_samples);
  }
  LLMTRAIN_ASSIGN(blend, Blend::make(std::move(entries)));
  SampleOrder order(std::move(blend));
  order.num_samples_ = std::move(sizes);
  order.seed_ = seed;
  order.kind_ = kind;
  return order;
}

SampleRef SampleOrder::at(std::int64_t index) const {
  const Blend::Draw draw = blend_.at(index);
  const std::int64_t n = num_samples_[draw.source];
  const std::int64_t epoch = draw.index / n;
  const std::int64_t position = draw.index % n;
  if (kind_ == Kind::kSequential) return {draw.source, epoch, position};
  const std::uint64_t source_seed = combine64(seed_, static_cast<std::uint64_t>(draw.source));
  return {draw.source, epoch, Permutation(n, source_seed, epoch).at(position)};
}

}  // namespace llmtrain
