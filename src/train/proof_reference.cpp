#include "llmtrain/train/proof_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

constexpr double kFloor = 1e-3;

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double scalar_difference(double expected, double found) {
  return std::abs(expected - found) / std::max(std::abs(expected), kFloor);
}

// A NaN on either side would be lost in a maximum.
double largest_difference(const std::vector<double>& whole, const RankPiece& piece) {
  const double* const found = piece.values.const_data_ptr<double>();
  double largest = 0;
  for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
    const auto at = static_cast<std::size_t>(piece.shard.global_index(piece.first + i));
    const double difference = std::abs(whole[at] - found[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

double wrong_samples(const std::vector<std::int64_t>& expected,
                     const std::vector<std::int64_t>& found,
                     const BatchShape& batch) {
  std::int64_t wrong = 0;
  std::size_t next = 0;
  for (std::int64_t m = 0; m < batch.num_micro_batches(); ++m)
    for (std::int64_t row = 0; row < batch.micro_batch_size; ++row, ++next) {
      const auto place = static_cast<std::size_t>(global_sample_index(batch, 1, m, row));
      wrong += next >= found.size() || found[next] != expected[place];
    }
  wrong += std::max<std::int64_t>(0, std::ssize(found) - static_cast<std::int64_t>(next));
  return static_cast<double>(wrong) / static_cast<double>(next);
}

}  // namespace

ProofReference::ProofReference(std::int64_t step, const Trainer::StepResult& result, const Rank& rank)
    : step_(step),
      samples_(result.samples),
      loss_(result.sums.mean_loss()),
      grad_norm_(result.grad_norm),
      grads_(remember(gradient_pieces(rank.parameters()))),
      weights_(remember(weight_pieces(rank.parameters()))),
      moments_(remember(moment_pieces(rank.parameters(), rank.optimizer()))) {
  raise_to_share_of_largest(grads_);
  raise_to_share_of_largest(moments_);
  for (auto& [name, whole] : weights_)
    whole.scale = std::max(whole.scale, result.lr * static_cast<double>(step));
}

ProofReference::Tensors ProofReference::remember(const std::vector<RankPiece>& pieces) {
  Tensors tensors;
  for (const RankPiece& piece : pieces) {
    const double* const values = piece.values.const_data_ptr<double>();
    Whole whole{.position = static_cast<int>(tensors.size()),
                .kind = piece.kind,
                .values = {values, values + piece.values.numel()}};
    whole.scale = std::max(largest_of(whole.values), std::numeric_limits<double>::min());
    tensors.emplace(piece.name, std::move(whole));
  }
  return tensors;
}

void ProofReference::raise_to_share_of_largest(Tensors& tensors) {
  std::map<std::string, double> largest;
  for (const auto& [name, whole] : tensors) largest[whole.kind] = std::max(largest[whole.kind], whole.scale);
  for (auto& [name, whole] : tensors) whole.scale = std::max(whole.scale, kFloor * largest[whole.kind]);
}

std::vector<Comparison> ProofReference::compare(const Trainer::StepResult& result,
                                                const Rank& rank,
                                                int global_rank,
                                                const BatchShape& batch) const {
  std::vector<Comparison> found;
  const auto add = [&](Compared what, int position, const std::string& tensor, double difference) {
    found.push_back({.step = step_,
                     .what = what,
                     .position = position,
                     .rank = global_rank,
                     .tensor = tensor,
                     .difference = difference});
  };
  const auto add_pieces = [&](Compared what, const Tensors& tensors, const std::vector<RankPiece>& pieces) {
    for (const RankPiece& piece : pieces) {
      const auto whole = tensors.find(piece.name);
      LLMTRAIN_CHECK(whole != tensors.end(), "one rank has no {}", piece.name);
      add(what,
          whole->second.position,
          piece.name,
          largest_difference(whole->second.values, piece) / whole->second.scale);
    }
  };
  add(Compared::kSampleOrder, 0, "sample_order", wrong_samples(samples_, result.samples, batch));
  add(Compared::kLoss, 0, "loss", scalar_difference(loss_, result.sums.mean_loss()));
  add(Compared::kGradNorm, 0, "grad_norm", scalar_difference(grad_norm_, result.grad_norm));
  add_pieces(Compared::kGrad, grads_, gradient_pieces(rank.parameters()));
  add_pieces(Compared::kWeight, weights_, weight_pieces(rank.parameters()));
  add_pieces(Compared::kMoment, moments_, moment_pieces(rank.parameters(), rank.optimizer()));
  return found;
}

}  // namespace llmtrain
