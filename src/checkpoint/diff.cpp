#include "llmtrain/checkpoint/diff.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "element_value.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kChunkElements = 1 << 20;

void compare_values(const TrainState& a, const TrainState& b, std::vector<ValueDifference>& differences) {
  const auto compare = [&](const char* name, const auto& left, const auto& right) {
    if (left != right) differences.push_back({name, fmt::format("{}", left), fmt::format("{}", right)});
  };
  compare("step", a.step, b.step);
  compare("next_sample", a.next_sample, b.next_sample);
  compare("tokens", a.tokens, b.tokens);
  compare("seed", a.seed, b.seed);
  compare("optimizer_steps", a.optimizer_steps, b.optimizer_steps);
  compare("skipped_steps", a.skipped_steps, b.skipped_steps);
  std::set<std::string> keys;
  for (const auto& [key, value] : a.extra) keys.insert(key);
  for (const auto& [key, value] : b.extra) keys.insert(key);
  for (const std::string& key : keys) {
    const auto value_in = [&](const TrainState& state) {
      const auto found = state.extra.find(key);
      return found == state.extra.end() ? std::string("(absent)") : found->second;
    };
    if (value_in(a) != value_in(b)) differences.push_back({"extra." + key, value_in(a), value_in(b)});
  }
}

// Accumulates over the chunks of one tensor.
struct Tally {
  TensorDifference difference;
  double largest = 0;  // magnitude in a

  void add(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
    const std::size_t width = bytes_of(dtype);
    for (std::size_t at = 0; at < a.size(); at += width) {
      const double left = element_value(dtype, a.data() + at);
      if (std::isfinite(left)) largest = std::max(largest, std::abs(left));
      if (std::memcmp(a.data() + at, b.data() + at, width) == 0) continue;
      ++difference.num_different;
      const double right = element_value(dtype, b.data() + at);
      const double distance = std::isfinite(left) && std::isfinite(right)
                                  ? std::abs(left - right)
                                  : std::numeric_limits<double>::infinity();
      difference.max_abs = std::max(difference.max_abs, distance);
    }
  }
};

Result<TensorDifference> compare_tensor(CheckpointReader& a, CheckpointReader& b, const TensorInfo& info) {
  Tally tally;
  tally.difference.name = info.name;
  tally.difference.num_elements = volume(info.shape);
  std::vector<std::byte> left;
  std::vector<std::byte> right;
  Status status = ok_status();
  for_each_chunk(info.shape, kChunkElements, [&](const Box& box) {
    left.resize(static_cast<std::size_t>(volume(box.extent)) * bytes_of(info.dtype));
    right.resize(left.size());
    status = a.read(info.name, info.dtype, box, left);
    if (status) status = b.read(info.name, info.dtype, box, right);
    if (status) tally.add(info.dtype, left, right);
    return status.ok();
  });
  LLMTRAIN_TRY(status);
  TensorDifference difference = std::move(tally.difference);
  difference.max_rel = difference.max_abs == 0 ? 0 : difference.max_abs / tally.largest;
  return difference;
}

}  // namespace

std::string CheckpointDiff::verdict() const {
  if (identical()) return "identical";
  std::vector<std::string> parts;
  for (const ValueDifference& value : values) parts.push_back(value.name);
  if (!tensors.empty()) parts.push_back(fmt::format("{} of {} tensors", tensors.size(), num_tensors));
  return fmt::format("different: {}", fmt::join(parts, ", "));
}

Result<CheckpointDiff> diff_checkpoints(CheckpointReader& a, CheckpointReader& b) {
  CheckpointDiff diff;
  compare_values(a.state(), b.state(), diff.values);
  std::map<std::string, std::pair<const TensorInfo*, const TensorInfo*>> by_name;
  for (const TensorInfo& info : a.tensors()) by_name[info.name].first = &info;
  for (const TensorInfo& info : b.tensors()) by_name[info.name].second = &info;
  diff.num_tensors = by_name.size();
  for (const auto& [name, pair] : by_name) {
    const auto& [left, right] = pair;
    TensorDifference difference;
    difference.name = name;
    if (!left || !right) {
      difference.problem = left ? "only in the first" : "only in the second";
    } else if (left->shape != right->shape) {
      difference.problem = fmt::format("shape {} and {}", shape_text(left->shape), shape_text(right->shape));
    } else if (left->dtype != right->dtype) {
      difference.problem = fmt::format("type {} and {}", to_string(left->dtype), to_string(right->dtype));
    } else {
      LLMTRAIN_ASSIGN(compared, compare_tensor(a, b, *left));
      difference = std::move(compared);
      if (difference.num_different == 0) continue;
    }
    diff.tensors.push_back(std::move(difference));
  }
  return diff;
}

}  // namespace llmtrain
