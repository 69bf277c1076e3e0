#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "llmtrain/data/batch.hpp"
#include "llmtrain/job/verdict.hpp"
#include "llmtrain/train/build.hpp"
#include "llmtrain/train/rank_pieces.hpp"

// What one rank alone computed in a step, whole and remembered; and how far a rank of a layout is from it.
//
// The relative difference of a tensor is max |a - b| / max(max |a|, floor), a from one rank, over the part
// that the other rank holds. Some gradients are zero in exact arithmetic, and noise over noise says nothing:
// floor is 1e-3 of the largest number among all gradients, or all moments of a name, and for weights what the
// optimizer can have moved: learning rate x steps. Loss and gradient norm: floor 1e-3. Sample order: the
// share of samples that are not the expected ones.
namespace llmtrain {

class ProofReference {
 public:
  // After a step of a job on one rank.
  ProofReference(std::int64_t step, const Trainer::StepResult& result, const Rank& rank);

  // After the same step of a rank that reads `batch` of every step.
  std::vector<Comparison> compare(const Trainer::StepResult& result,
                                  const Rank& rank,
                                  int global_rank,
                                  const BatchShape& batch) const;

 private:
  struct Whole {
    int position = 0;
    std::string kind;
    std::vector<double> values;  // flattened
    double scale = 0;            // max(max |a|, floor)
  };
  using Tensors = std::map<std::string, Whole>;

  static Tensors remember(const std::vector<RankPiece>& pieces);
  static void raise_to_share_of_largest(Tensors& tensors);

  std::int64_t step_;
  std::vector<std::int64_t> samples_;
  double loss_;
  double grad_norm_;
  Tensors grads_;
  Tensors weights_;
  Tensors moments_;
};

}  // namespace llmtrain
