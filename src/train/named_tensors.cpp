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

struct KindAndInfo {
  const char* kind;
  TensorInfo info;
};

// Weights, masters where they are separate, every state of the optimizer.
std::vector<KindAndInfo> tensors_of(const ParamSpec& param,
                                    DType compute,
                                    const std::vector<std::string>& optimizer_states) {
  const DType main = accumulation_type(compute);
  std::vector<KindAndInfo> tensors = {
      {kWeightsKind, {.name = param.name, .dtype = compute, .shape = param.shape}}};
  const auto add = [&](const std::string& prefix) {
    tensors.push_back({kOptimizerKind, {.name = prefix + param.name, .dtype = main, .shape = param.shape}});
  };
  if (main != compute) add(kMasterPrefix);
  for (const std::string& state : optimizer_states) add(state + ".");
  return tensors;
}

}  // namespace

std::int64_t NamedTensor::owned_bytes() const {
  std::int64_t bytes = 0;
  for (const OwnedBox& part : owned) bytes += static_cast<std::int64_t>(part.values.nbytes());
  return bytes;
}

std::vector<TensorInfo> tensor_infos(const std::vector<ParamSpec>& table,
                                     DType compute,
                                     const std::vector<std::string>& optimizer_states) {
  std::vector<TensorInfo> infos;
  for (const ParamSpec& param : table)
    if (param.tied_with.empty())
      for (KindAndInfo& tensor : tensors_of(param, compute, optimizer_states))
        infos.push_back(std::move(tensor.info));
  return infos;
}

std::vector<NamedTensor> name_tensors(const FlatParameters& parameters, const Optimizer& optimizer) {
  const std::vector<std::string> states = optimizer.state_names();
  std::vector<NamedTensor> out;
  std::size_t updated = 0;  // slices of the optimizer so far
  for (SegmentIndex s = 0; s < parameters.num_segments(); ++s) {
    for (const ParamSlice& slice : parameters.segment(s).slices) {
      const bool has_part = slice.owned.size() > 0;
      std::vector<at::Tensor> values;  // in the order of tensors_of
      values.push_back(slice.own_weight);
      if (parameters.has_separate_masters()) values.push_back(slice.master);
      for (const std::string& state : states)
        values.push_back(has_part ? optimizer.state(updated, state) : at::Tensor());
      if (has_part) ++updated;

      std::vector<KindAndInfo> tensors = tensors_of(*slice.spec, parameters.compute_type(), states);
      for (std::size_t i = 0; i < tensors.size(); ++i)
        out.push_back(
            {.kind = tensors[i].kind,
             .info = std::move(tensors[i].info),
             .is_counted = slice.is_counted(),
             .owned = values[i].defined() ? owned_boxes(slice, values[i]) : std::vector<OwnedBox>()});
    }
  }
  return out;
}

}  // namespace llmtrain
