#include "llmtrain/train/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/philox.hpp"

namespace llmtrain {
namespace {

// Uniform in [0, 1) with 53 bits.
double uniform(std::uint64_t seed, std::int64_t position) {
  const auto bits = philox(seed, static_cast<std::uint64_t>(position));
  const std::uint64_t high = (static_cast<std::uint64_t>(bits[0]) << 32) | bits[1];
  return static_cast<double>(high >> 11) * 0x1.0p-53;
}

// How many of the most likely candidates stay; `weights` are unnormalised and descending.
std::size_t nucleus_size(const std::vector<double>& weights, double top_p) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double mass = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    mass += weights[i];
    if (mass >= top_p * total) return i + 1;
  }
  return weights.size();
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits,
                          const SamplingOptions& options,
                          std::int64_t position) {
  LLMTRAIN_CHECK(!logits.empty(), "no logits to sample from");
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto more_likely = [&](std::int32_t a, std::int32_t b) {
    const float la = logits[static_cast<std::size_t>(a)];
    const float lb = logits[static_cast<std::size_t>(b)];
    return la > lb || (la == lb && a < b);
  };
  if (options.temperature <= 0) return *std::min_element(order.begin(), order.end(), more_likely);

  std::sort(order.begin(), order.end(), more_likely);
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(options.top_k)));
  const double best = logits[static_cast<std::size_t>(order.front())];
  std::vector<double> weights;
  weights.reserve(order.size());
  for (const std::int32_t id : order)
    weights.push_back(std::exp((logits[static_cast<std::size_t>(id)] - best) / options.temperature));
  weights.resize(nucleus_size(weights, options.top_p));

  double target = uniform(options.seed, position) * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    target -= weights[i];
    if (target < 0) return order[i];
  }
  return order[weights.size() - 1];
}

}  // namespace llmtrain
