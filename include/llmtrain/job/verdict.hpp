#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

// How far the ranks of a layout are from one rank, and where they first part.
//
// It judges numbers that others have compared; tensors, and how a difference is measured, are not its
// business.
namespace llmtrain {

// In the order in which a step is judged: what is wrong in an earlier one usually shows in those behind it.
enum class Compared { kSampleOrder, kGrad, kLoss, kGradNorm, kWeight, kMoment };
inline constexpr std::array kAllCompared = {Compared::kSampleOrder,
                                            Compared::kGrad,
                                            Compared::kLoss,
                                            Compared::kGradNorm,
                                            Compared::kWeight,
                                            Compared::kMoment};

// sample_order, grad, loss, grad_norm, weight, moment.
std::string_view to_string(Compared what);

// One quantity of one rank after one step.
struct Comparison {
  std::int64_t step = 0;
  Compared what = Compared::kSampleOrder;
  int position = 0;  // among the tensors of its kind, in the order of the placement table
  int rank = 0;      // global
  std::string tensor;
  double difference = 0;  // relative; not finite = not comparable, which is never within a tolerance

  auto place() const { return std::tie(step, what, position, rank); }
};

struct Verdict {
  std::array<double, kAllCompared.size()> max_rel_diff{};
  double tolerance = 0;
  std::optional<Comparison> first_divergence;  // by step, quantity, tensor, then rank

  bool ok() const { return !first_divergence; }
  double largest(Compared what) const { return max_rel_diff[static_cast<std::size_t>(what)]; }
};

Verdict judge(const std::vector<Comparison>& comparisons, double tolerance);

}  // namespace llmtrain
