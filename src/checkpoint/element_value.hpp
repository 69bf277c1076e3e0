#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "llmtrain/core/dtype.hpp"

// One stored element as a double, exactly; bytes need no alignment.
namespace llmtrain {

inline double half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) ? -1.0 : 1.0;
  if (exponent == 0x1f)
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 0x400, exponent - 25);
}

inline double element_value(DType dtype, const std::byte* bytes) {
  const auto load = [&](auto value) {
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kBf16: return std::bit_cast<float>(static_cast<std::uint32_t>(load(std::uint16_t{})) << 16);
    case DType::kFp16: return half_value(load(std::uint16_t{}));
    case DType::kFp32: return load(float{});
    case DType::kFp64: return load(double{});
  }
  return 0;
}

}  // namespace llmtrain
