#include "llmtrain/parallel/flat_parameters.hpp"

#include <algorithm>
#include <span>

#include <ATen/Parallel.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/placement/init.hpp"
#include "llmtrain/tensor/hollow.hpp"
#include "llmtrain/tensor/memory_pool.hpp"

namespace llmtrain {
namespace {

// Values of the part that this rank owns.
template <class T>
void init_slice(const ParamSlice& slice, std::uint64_t seed) {
  T* const data = slice.master.data_ptr<T>();
  constexpr std::int64_t kGrain = 1 << 14;
  at::parallel_for(slice.owned.begin, slice.owned.end, kGrain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t count = std::min(end - begin, slice.shard.run - begin % slice.shard.run);
      init_values(*slice.spec,
                  seed,
                  slice.shard.global_index(begin),
                  std::span<T>(data + (begin - slice.owned.begin), static_cast<std::size_t>(count)));
      begin += count;
    }
  });
}

// The buffer itself where the range is all of it.
at::Tensor part_of(const at::Tensor& buffer, const FlatRange& range) {
  return range.size() == buffer.numel() ? buffer : buffer.narrow(0, range.begin, range.size());  // [range]
}

}  // namespace

FlatParameters::FlatParameters(
    std::vector<ParamSpec> table, DType compute, TensorPlace place, ZeroPlace zero, MemoryPool master_pool)
    : table_(std::move(table)), compute_(compute), place_(place), zero_(zero), master_pool_(master_pool) {
  const std::vector<FlatSegment> layout = flat_layout(table_, place_, zero_);
  segments_.resize(layout.size());
  for (std::size_t i = 0; i < layout.size(); ++i) allocate(static_cast<SegmentIndex>(i), layout[i]);
  allocate_lanes(layout);
  for (const ParamSpec& param : table_)
    if (!param.tied_with.empty()) tie(param);
}

void FlatParameters::allocate_lanes(const std::vector<FlatSegment>& layout) {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> grads;
  for (const SegmentParameters& segment : segments_) {
    weights.push_back(segment.weights);
    grads.push_back(segment.grads);
  }
  if (zero_.shards_weights()) {
    const PoolScope scope(MemoryPool::kParameters);
    weight_lanes_ =
        SegmentLanes(std::move(weights), zero_.keeps_weights ? own_lanes(layout) : plan_lanes(layout));
  }
  if (zero_.shards_gradients()) {
    const PoolScope scope(MemoryPool::kGradients);
    gradient_lanes_ = SegmentLanes(std::move(grads), plan_lanes(layout));
  }
}

void FlatParameters::tie(const ParamSpec& param) {
  const auto holder = by_name_.find(param.tied_with);
  LLMTRAIN_CHECK(
      holder != by_name_.end(), "{} is tied with {}, which is not in the table", param.name, param.tied_with);
  LLMTRAIN_CHECK(slice(param.tied_with).spec->shape == param.shape,
                 "{} and {} are tied but differ in shape",
                 param.name,
                 param.tied_with);
  by_name_.emplace(param.name, holder->second);
}

void FlatParameters::allocate(SegmentIndex index, const FlatSegment& layout) {
  SegmentParameters& segment = segments_[static_cast<std::size_t>(index)];
  segment.own = layout.own;
  segment.borrows = layout.borrows;
  allocate_weights(segment, layout);
  allocate_grads(segment, layout);

  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    const FlatSlot& slot = layout.slots[i];
    const auto whole = [&](const at::Tensor& buffer) {
      return buffer.narrow(0, slot.offset, slot.shard.numel());  // [numel]
    };
    // An empty part lies nowhere: any place will do.
    const std::int64_t first = std::clamp<std::int64_t>(
        slot.offset + slot.owned.begin - layout.own.begin, 0, layout.own.size() - slot.owned.size());
    const auto own = [&](const at::Tensor& buffer) {
      return buffer.narrow(0, first, slot.owned.size());  // [owned]
    };
    segment.slices.push_back({.spec = slot.spec,
                              .shard = slot.shard,
                              .offset = slot.offset,
                              .weight = whole(segment.weights),
                              .grad = whole(segment.grads),
                              .owned = slot.owned,
                              .own_weight = own(segment.own_weights),
                              .master = own(segment.masters),
                              .own_grad = own(segment.own_grads)});
    const bool added = by_name_.emplace(slot.spec->name, Location{index, i}).second;
    LLMTRAIN_CHECK(added, "parameter {} is listed twice", slot.spec->name);
  }
}

void FlatParameters::allocate_weights(SegmentParameters& segment, const FlatSegment& layout) {
  {
    const PoolScope scope(MemoryPool::kParameters);
    if (zero_.shards_weights()) {
      segment.weights = hollow_host(layout.elements, compute_);         // [elements]
      segment.own_weights = zeros_host({layout.own.size()}, compute_);  // [own]
    } else {
      segment.weights = zeros_host({layout.elements}, compute_);   // [elements]
      segment.own_weights = part_of(segment.weights, layout.own);  // [own]
    }
  }
  segment.masters = segment.own_weights;  // [own]
  if (!has_separate_masters()) return;
  const PoolScope scope(master_pool_);
  segment.masters = zeros_host({layout.own.size()}, main_type());  // [own]
}

void FlatParameters::allocate_grads(SegmentParameters& segment, const FlatSegment& layout) {
  const PoolScope scope(MemoryPool::kGradients);
  if (zero_.shards_gradients()) {
    segment.grads = hollow_host(layout.elements, main_type());         // [elements]
    segment.own_grads = zeros_host({layout.own.size()}, main_type());  // [own]
  } else {
    segment.grads = zeros_host({layout.elements}, main_type());  // [elements]
    segment.own_grads = part_of(segment.grads, layout.own);      // [own]
  }
}

void FlatParameters::initialize(std::uint64_t seed) {
  for (const SegmentParameters& part : segments_) {
    for (const ParamSlice& slice : part.slices) {
      if (main_type() == DType::kFp64)
        init_slice<double>(slice, seed);
      else
        init_slice<float>(slice, seed);
    }
  }
  publish_all();
}

void FlatParameters::publish(SegmentIndex index) {
  const SegmentParameters& part = segment(index);
  if (has_separate_masters()) segments_[static_cast<std::size_t>(index)].own_weights.copy_(part.masters);
}

void FlatParameters::publish_all() {
  for (int i = 0; i < num_segments(); ++i) publish(i);
}

void FlatParameters::zero_grad(SegmentIndex index) {
  LLMTRAIN_CHECK(index >= 0 && index < num_segments(), "segment {} of {}", index, num_segments());
  SegmentParameters& part = segments_[static_cast<std::size_t>(index)];
  (zero_.shards_gradients() ? part.own_grads : part.grads).zero_();
}

void FlatParameters::zero_grads() {
  for (int i = 0; i < num_segments(); ++i) zero_grad(i);
}

BufferBytes FlatParameters::bytes() const {
  const auto of = [](const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); };
  BufferBytes bytes{.weights = weight_lanes_.bytes(), .grads = gradient_lanes_.bytes()};
  for (const SegmentParameters& part : segments_) {
    bytes.weights += of(zero_.shards_weights() ? part.own_weights : part.weights);
    if (has_separate_masters()) bytes.masters += of(part.masters);
    bytes.grads += of(zero_.shards_gradients() ? part.own_grads : part.grads);
  }
  return bytes;
}

const SegmentParameters& FlatParameters::segment(SegmentIndex index) const {
  LLMTRAIN_CHECK(index >= 0 && index < num_segments(), "segment {} of {}", index, num_segments());
  return segments_[static_cast<std::size_t>(index)];
}

const ParamSlice& FlatParameters::slice(const std::string& name) const {
  const auto found = by_name_.find(name);
  LLMTRAIN_CHECK(found != by_name_.end(), "no parameter is called {}", name);
  return segment(found->second.segment).slices[found->second.index];
}

WeightView FlatParameters::view(const std::string& name) const {
  if (!contains(name)) return {};
  const ParamSlice& part = slice(name);
  return {.weight = part.weight.view(part.shard.extent), .grad = part.grad.view(part.shard.extent)};
}

WeightView FlatParameters::fused_view(const std::vector<std::string>& names) const {
  if (names.empty() || !contains(names.front())) return {};
  const Location first = by_name_.at(names.front());
  const ParamSlice& head = slice(names.front());
  std::vector<std::int64_t> shape = head.shard.extent;
  std::int64_t numel = head.shard.numel();
  for (std::size_t i = 1; i < names.size(); ++i) {
    const auto found = by_name_.find(names[i]);
    if (found == by_name_.end() || found->second.segment != first.segment) return {};
    const ParamSlice& part = slice(names[i]);
    const std::vector<std::int64_t>& extent = part.shard.extent;
    const bool same_columns = extent.size() == shape.size() && (shape.size() < 2 || extent[1] == shape[1]);
    if (!same_columns || part.offset != head.offset + numel) return {};
    shape[0] += extent[0];
    numel += part.shard.numel();
  }
  const SegmentParameters& home = segment(first.segment);
  return {.weight = home.weights.narrow(0, head.offset, numel).view(shape),
          .grad = home.grads.narrow(0, head.offset, numel).view(shape)};
}

}  // namespace llmtrain
