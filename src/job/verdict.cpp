#include "llmtrain/job/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmtrain {

std::string_view to_string(Compared what) {
  switch (what) {
    case Compared::kSampleOrder: return "sample_order";
    case Compared::kGrad: return "grad";
    case Compared::kLoss: return "loss";
    case Compared::kGradNorm: return "grad_norm";
    case Compared::kWeight: return "weight";
    case Compared::kMoment: return "moment";
  }
  return "?";
}

Verdict judge(const std::vector<Comparison>& comparisons, double tolerance) {
  Verdict verdict;
  verdict.tolerance = tolerance;
  for (const Comparison& comparison : comparisons) {
    const bool finite = std::isfinite(comparison.difference);
    double& largest = verdict.max_rel_diff[static_cast<std::size_t>(comparison.what)];
    largest = std::max(largest, finite ? comparison.difference : std::numeric_limits<double>::infinity());
    if (finite && comparison.difference <= tolerance) continue;
    if (!verdict.first_divergence || comparison.place() < verdict.first_divergence->place())
      verdict.first_divergence = comparison;
  }
  return verdict;
}

}  // namespace llmtrain
