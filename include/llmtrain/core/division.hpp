#pragma once

#include <cstdint>

#include "llmtrain/core/check.hpp"

// Division that shows its intent: most sharding bugs are a silent floor.
namespace llmtrain {

// a / b where b must divide a.
constexpr std::int64_t exact_div(std::int64_t a, std::int64_t b) {
  if (b == 0 || a % b != 0) fail_check(__FILE__, __LINE__, "a % b == 0", "exact_div has a remainder");
  return a / b;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace llmtrain
