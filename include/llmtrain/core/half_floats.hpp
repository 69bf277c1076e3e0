#pragma once

#include <bit>
#include <cstdint>

// bf16 and fp16 as bits, converted without branches that would stop a loop from being vectorised. Always
// inlined: a loop that is compiled for several instruction sets leaves no function behind that another CPU
// might run.
namespace llmtrain {

[[gnu::always_inline]] inline float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

[[gnu::always_inline]] inline std::uint16_t bf16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>(value == value ? rounded : quiet_nan);
}

[[gnu::always_inline]] inline float float_of_fp16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = (half & 0x7fffu) << 13;
  // Exponent and mantissa in place, rebiased by a multiplication that also makes subnormals right.
  const float finite = std::bit_cast<float>(magnitude) * 0x1p112f;
  const bool special = (half & 0x7c00u) == 0x7c00u;
  return std::bit_cast<float>(sign |
                              (special ? magnitude | 0x7f800000u : std::bit_cast<std::uint32_t>(finite)));
}

[[gnu::always_inline]] inline std::uint16_t fp16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Normal results: drop 13 mantissa bits, rounding to nearest even; the carry may reach infinity.
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal results: adding 0.5 lets the floating-point adder round to multiples of 2^-24.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                                  std::bit_cast<std::uint32_t>(0.5f);
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x47800000u ? 0x7c00u : result;  // 65536 and above: infinity
  result = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : result;  // NaN
  return static_cast<std::uint16_t>(sign | result);
}

}  // namespace llmtrain
