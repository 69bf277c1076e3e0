#include "llmtrain/optim/gradient_scale.hpp"

#include <algorithm>
#include <cmath>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

double token_correction(std::int64_t nominal_tokens, std::int64_t valid_tokens) {
  LLMTRAIN_CHECK(nominal_tokens > 0 && valid_tokens >= 0 && valid_tokens <= nominal_tokens,
                 "{} valid of {} nominal tokens",
                 valid_tokens,
                 nominal_tokens);
  if (valid_tokens == 0) return 1;
  return static_cast<double>(nominal_tokens) / static_cast<double>(valid_tokens);
}

GradientScale gradient_scale(double sum_of_squares, double correction, double max_norm) {
  GradientScale result;
  result.norm = std::sqrt(sum_of_squares) * correction;
  result.finite = std::isfinite(result.norm);
  if (!result.finite) {
    result.scale = 0;
  } else {
    result.scale = correction * (max_norm > 0 ? std::min(1.0, max_norm / (result.norm + 1e-6)) : 1.0);
  }
  return result;
}

}  // namespace llmtrain
