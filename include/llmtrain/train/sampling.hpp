#pragma once

#include <cstdint>
#include <span>

// Chooses the next token from logits: temperature, top-k and top-p (nucleus), in this order.
//
// A pure function: the n-th draw of a seed is the same on every machine and in every run.
namespace llmtrain {

struct SamplingOptions {
  double temperature = 1.0;  // 0 = the most likely token
  int top_k = 0;             // 0 = off
  double top_p = 1.0;        // 1 = off
  std::uint64_t seed = 0;
};

// `logits` [vocab]; returns the token id. Ties go to the smaller id.
std::int32_t sample_token(std::span<const float> logits,
                          const SamplingOptions& options,
                          std::int64_t position);

}  // namespace llmtrain
