#pragma once

#include <cstdint>
#include <string>

#include "llmtrain/core/result.hpp"

// Amounts with a unit, as people write them in a job spec: `2000 steps`, `100B tokens`, `10%`.
//
// A bare number means steps. K, M, B and T multiply by powers of a thousand. Only the unit is kept;
// converting tokens or percent to steps needs the batch and the duration and happens in `job`.
namespace llmtrain {

struct Quantity {
  enum class Unit { kSteps, kTokens, kSamples, kPercent };

  double amount = 0;
  Unit unit = Unit::kSteps;

  friend bool operator==(const Quantity&, const Quantity&) = default;
};

constexpr Quantity steps(std::int64_t n) {
  return {static_cast<double>(n), Quantity::Unit::kSteps};
}

// `what was found; what is allowed` on failure.
Result<Quantity> parse_quantity(const std::string& text);
std::string to_string(const Quantity& quantity);

}  // namespace llmtrain
