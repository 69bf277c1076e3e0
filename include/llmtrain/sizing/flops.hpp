#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "llmtrain/spec/job_spec.hpp"

// Model FLOPs of one trained token, and what share of the machine's peak that makes.
//
// Counted are the matrix products of forward and backward, a multiply and an add as two, backward as twice
// forward. With N = parameters of matrices that a token is multiplied with (the head once, tied or not; not
// the embedding tables, which are only looked up), L layers, H query heads of width d, s tokens a sequence:
//
//   FLOPs per token = 6 N + 6 L H d s
//
// The second term is scores and weighted values, 2 x 2 x H d for each (query, key) pair, over s / 2 keys of
// a causal sequence. Neither the number of key/value heads nor hidden size enters it. Recomputed work,
// norms, softmax and document masks do not count: the number says what the model needs, not what a
// run does.
namespace llmtrain {

struct ModelFlops {
  std::int64_t matmul_parameters = 0;  // N
  double matmul = 0;                   // 6 N
  double attention = 0;                // 6 L H d s
  double per_token() const { return matmul + attention; }
};

// `model` must be resolved.
ModelFlops model_flops(const ModelSpec& model, std::int64_t seq_length);

// "MFU = tokens/s x (6 N + 6 L H d s) / peak; N = ..., L = ..., ...: 1.23 GFLOP per token" for the run's log.
std::string describe(const ModelFlops& flops, const ModelSpec& model, std::int64_t seq_length);

// `peak` in FLOP/s of all ranks together; absent while the peak is not known.
std::optional<double> mfu(double tokens_per_second, double flops_per_token, std::optional<double> peak);

}  // namespace llmtrain
