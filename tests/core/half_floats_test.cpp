#include "llmtrain/core/half_floats.hpp"

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("half floats: every fp16 and bf16 pattern survives a round trip", "[core]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool fp16_nan = (half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0;
    const bool bf16_nan = (half & 0x7f80) == 0x7f80 && (half & 0x7f) != 0;
    if (fp16_nan ? !std::isnan(float_of_fp16(half)) ||
                       !std::isnan(float_of_fp16(fp16_of_float(float_of_fp16(half))))
                 : fp16_of_float(float_of_fp16(half)) != half)
      ++wrong;
    if (bf16_nan ? !std::isnan(float_of_bf16(half)) ||
                       !std::isnan(float_of_bf16(bf16_of_float(float_of_bf16(half))))
                 : bf16_of_float(float_of_bf16(half)) != half)
      ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("half floats: halfway cases round to even, overflow to infinity", "[core]") {
  CHECK(float_of_fp16(0x3c00) == 1.0F);
  CHECK(float_of_fp16(0x0001) == std::ldexp(1.0F, -24));
  CHECK(fp16_of_float(1.0F + std::ldexp(1.0F, -11)) == 0x3c00);      // halfway, even below
  CHECK(fp16_of_float(1.0F + 3 * std::ldexp(1.0F, -11)) == 0x3c02);  // halfway, even above
  CHECK(fp16_of_float(std::ldexp(1.0F, -25)) == 0x0000);             // halfway to the smallest subnormal
  CHECK(fp16_of_float(std::ldexp(1.5F, -25)) == 0x0001);
  CHECK(fp16_of_float(65504.0F) == 0x7bff);
  CHECK(fp16_of_float(65519.9F) == 0x7bff);
  CHECK(fp16_of_float(65520.0F) == 0x7c00);
  CHECK(fp16_of_float(-1e9F) == 0xfc00);
  CHECK(bf16_of_float(1.0F + std::ldexp(1.0F, -8)) == 0x3f80);
  CHECK(bf16_of_float(1.0F + 3 * std::ldexp(1.0F, -8)) == 0x3f82);
  CHECK(bf16_of_float(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(std::isnan(float_of_bf16(bf16_of_float(std::numeric_limits<float>::signaling_NaN()))));
}
