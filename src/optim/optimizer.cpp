#include "llmtrain/optim/optimizer.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"
#include "llmtrain/optim/adamw.hpp"
#include "llmtrain/optim/sgd.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kAlignBytes = 64;
constexpr std::int64_t kGrain = 1 << 15;  // elements that are worth a thread

void check_slice(const OptimizerSlice& slice, at::ScalarType master_type) {
  const auto flat = [](const at::Tensor& t) {
    return t.defined() && t.dim() == 1 && t.is_contiguous() && t.is_cpu();
  };
  LLMTRAIN_CHECK(flat(slice.weight) && flat(slice.master) && flat(slice.grad),
                 "slice `{}` needs one-dimensional contiguous CPU tensors",
                 slice.name);
  LLMTRAIN_CHECK(slice.weight.numel() == slice.master.numel() && slice.grad.numel() == slice.master.numel(),
                 "slice `{}`: weight {}, master {}, gradient {} elements",
                 slice.name,
                 slice.weight.numel(),
                 slice.master.numel(),
                 slice.grad.numel());
  LLMTRAIN_CHECK(slice.master.scalar_type() == master_type && slice.grad.scalar_type() == master_type,
                 "slice `{}`: masters and gradients of one optimizer have one type",
                 slice.name);
  LLMTRAIN_CHECK(master_type == at::kFloat || master_type == at::kDouble,
                 "slice `{}`: masters are fp32 or fp64",
                 slice.name);
  const bool same_memory = slice.weight.scalar_type() == master_type &&
                           slice.weight.const_data_ptr() == slice.master.const_data_ptr();
  const at::ScalarType type = slice.weight.scalar_type();
  const bool rounded = (type == at::kBFloat16 || type == at::kHalf) && master_type == at::kFloat;
  LLMTRAIN_CHECK(same_memory || rounded,
                 "slice `{}`: the weight is its master's memory, or bf16 or fp16 beside an fp32 master",
                 slice.name);
  const auto is_copy_of = [](const at::Tensor& host, const at::Tensor& device) {
    return device.is_contiguous() && device.sizes() == host.sizes() &&
           device.scalar_type() == host.scalar_type();
  };
  LLMTRAIN_CHECK(slice.device_weight.defined() == slice.device_grad.defined() &&
                     (!slice.device_weight.defined() || (is_copy_of(slice.weight, slice.device_weight) &&
                                                         is_copy_of(slice.grad, slice.device_grad))),
                 "slice `{}`: weight and gradient on the device are those on the host, in type and size",
                 slice.name);
}

at::Tensor pinned_copy(const at::Tensor& device) {
  at::Tensor host = at::empty(device.sizes(), device.options().device(at::kCPU).pinned_memory(true));  // [n]
  return host.copy_(device);
}

}  // namespace

OptimizerSlice on_host(OptimizerSlice slice) {
  if (slice.weight.is_cpu()) return slice;
  slice.device_weight = std::exchange(slice.weight, pinned_copy(slice.weight));
  slice.device_grad = std::exchange(slice.grad, pinned_copy(slice.grad));
  if (!slice.master.is_cpu()) slice.master = slice.weight;
  return slice;
}

Optimizer::Optimizer(std::vector<OptimizerSlice> slices, const std::vector<std::string>& state_names)
    : slices_(std::move(slices)) {
  const at::ScalarType type = slices_.empty() ? at::kFloat : slices_.front().master.scalar_type();
  const auto align = kAlignBytes / static_cast<std::int64_t>(c10::elementSize(type));
  std::unordered_set<std::string_view> names;
  std::int64_t total = 0;
  std::int64_t padded = 0;
  for (const OptimizerSlice& slice : slices_) {
    check_slice(slice, type);
    LLMTRAIN_CHECK(names.insert(slice.name).second, "slice `{}` is listed twice", slice.name);
    ends_.push_back(total += slice.master.numel());
    padded += round_up(slice.master.numel(), align);
  }
  for (const std::string& name : state_names) {
    State state{name, at::zeros({padded}, at::TensorOptions(type)), {}};
    std::int64_t offset = 0;
    for (const OptimizerSlice& slice : slices_) {
      state.slices.push_back(state.buffer.narrow(0, offset, slice.master.numel()));
      offset += round_up(slice.master.numel(), align);
    }
    states_.push_back(std::move(state));
  }
}

// Gradients are here before the update reads them; weights may still be on their way afterwards, in the order
// of the device, and are there before gradients of the next step are.
void Optimizer::step(double lr, double grad_scale) {
  ++count_;
  for (const OptimizerSlice& slice : slices_)
    if (slice.device_grad.defined()) slice.grad.copy_(slice.device_grad);
  update(lr, grad_scale);
  for (const OptimizerSlice& slice : slices_)
    if (slice.device_weight.defined()) slice.device_weight.copy_(slice.weight, true);
}

void Optimizer::set_count(std::int64_t count) {
  LLMTRAIN_CHECK(count >= 0, "an optimizer cannot have made {} updates", count);
  count_ = count;
}

std::vector<std::string> Optimizer::state_names() const {
  std::vector<std::string> names;
  for (const State& state : states_) names.push_back(state.name);
  return names;
}

at::Tensor Optimizer::state(std::size_t slice, const std::string& name) const {
  LLMTRAIN_CHECK(slice < slices_.size(), "slice {} of {}", slice, slices_.size());
  for (const State& state : states_)
    if (state.name == name) return state.slices[slice];
  LLMTRAIN_CHECK(false, "this optimizer has no state `{}`", name);
}

std::int64_t Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const State& state : states_) bytes += static_cast<std::int64_t>(state.buffer.nbytes());
  return bytes;
}

void Optimizer::for_each_part(const Part& part) const {
  if (ends_.empty()) return;
  at::parallel_for(0, ends_.back(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto slice =
        static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    for (; begin < end; ++slice) {
      const std::int64_t start = slice == 0 ? 0 : ends_[slice - 1];
      const std::int64_t stop = std::min(end, ends_[slice]);
      if (stop > begin) part(slice, begin - start, stop - start);
      begin = stop;
    }
  });
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec, std::vector<OptimizerSlice> slices) {
  if (spec.name == OptimizerKind::kSgd)
    return std::make_unique<Sgd>(SgdOptions{.momentum = spec.momentum, .weight_decay = spec.weight_decay},
                                 std::move(slices));
  return std::make_unique<AdamW>(
      AdamWOptions{
          .beta1 = spec.betas[0], .beta2 = spec.betas[1], .eps = spec.eps, .weight_decay = spec.weight_decay},
      std::move(slices));
}

}  // namespace llmtrain
