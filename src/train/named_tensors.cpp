#include "llmtrain/train/named_tensors.hpp"

namespace llmtrain {
namespace {

std::vector<OwnedBox> owned_boxes(const ParamSlice& slice, const at::Tensor& values) {
  std::vector<OwnedBox> owned;
  std::int64_t first = 0;
  for (Box& box : boxes_of_flat_range(slice.shard.extent, slice.owned.begin, slice.owned.end)) {
    const std::int64_t count = volume(box.extent);
    for (std::size_t dim = 0; dim < box.offset.size(); ++dim) box.offset[dim] += slice.shard.offset[dim];
    owned.push_back({std::move(box), values.narrow(0, first, count)});
    first += count;
  }
  return owned;
}

}  // namespace

std::int64_t NamedTensor::owned_bytes() const {
  std::int64_t bytes = 0;
  for (const OwnedBox& part : owned) bytes += static_cast<std::int64_t>(part.values.nbytes());
  return bytes;
}

std::vector<NamedTensor> name_tensors(const FlatParameters& parameters, const Optimizer& optimizer) {
  std::vector<NamedTensor> out;
  const auto add = [&](const char* kind,
                       const std::string& prefix,
                       const ParamSlice& slice,
                       DType dtype,
                       const at::Tensor& values) {
    out.push_back({.kind = kind,
                   .info = {.name = prefix + slice.spec->name, .dtype = dtype, .shape = slice.spec->shape},
                   .is_counted = slice.shard.is_counted(),
                   .owned = values.defined() ? owned_boxes(slice, values) : std::vector<OwnedBox>()});
  };
  std::size_t updated = 0;  // slices of the optimizer so far
  for (SegmentIndex s = 0; s < parameters.num_segments(); ++s) {
    for (const ParamSlice& slice : parameters.segment(s).slices) {
      const bool has_part = slice.owned.size() > 0;
      add(kWeightsKind, "", slice, parameters.compute_type(), slice.own_weight);
      if (parameters.has_separate_masters())
        add(kOptimizerKind, kMasterPrefix, slice, parameters.main_type(), slice.master);
      for (const std::string& state : optimizer.state_names())
        add(kOptimizerKind,
            state + ".",
            slice,
            parameters.main_type(),
            has_part ? optimizer.state(updated, state) : at::Tensor());
      if (has_part) ++updated;
    }
  }
  return out;
}

}  // namespace llmtrain
