#include "llmtrain/spec/scalars.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

template <class T>
ScalarFault fault_of(const char* text) {
  T ignored{};
  return parse_scalar(text, ignored);
}

double number(const char* text) {
  double value = NAN;
  CHECK(parse_scalar(text, value) == ScalarFault::kNone);
  return value;
}

}  // namespace

TEST_CASE("scalars: every way to write a ten-thousandth is the same number", "[spec]") {
  for (const char* text : {"1e-4", "1E-4", "1.0e-4", ".0001", "0.0001", "+1e-4", "1.e-4", "1e-04"})
    CHECK(number(text) == 0.0001);
}

TEST_CASE("scalars: what is no decimal number is refused", "[spec]") {
  for (const char* text :
       {"",   "1e-4x", "nan", "NaN", ".nan", "inf", "-inf", ".inf", "infinity", "0x10", "1_000", "1,5",
        "1 ", " 1",    "--1", "+-1", "e5",   "1e",  ".",    "-",    "+",        "true", "1e5.5"})
    CHECK(fault_of<double>(text) == ScalarFault::kMalformed);
  for (const char* text : {"1e400", "-1e400", "1e-400"})
    CHECK(fault_of<double>(text) == ScalarFault::kOutOfRange);
}

TEST_CASE("scalars: whole numbers have no fraction and no exponent", "[spec]") {
  for (const char* text : {"", "2.0", "2.5", "1e3", "0x10", "1_000", "x", "-", "+", "--1", "2 "})
    CHECK(fault_of<std::int64_t>(text) == ScalarFault::kMalformed);
}

TEST_CASE("scalars: a number beyond its type is out of range, never wrapped", "[spec]") {
  CHECK(fault_of<std::int32_t>("3000000000") == ScalarFault::kOutOfRange);
  CHECK(fault_of<std::int64_t>("9223372036854775808") == ScalarFault::kOutOfRange);
  CHECK(fault_of<std::uint64_t>("18446744073709551616") == ScalarFault::kOutOfRange);
  CHECK(fault_of<std::uint64_t>("-1") == ScalarFault::kOutOfRange);
  std::uint64_t seed = 0;
  CHECK(parse_scalar("18446744073709551615", seed) == ScalarFault::kNone);
  CHECK(seed == std::numeric_limits<std::uint64_t>::max());
  CHECK(parse_scalar("2147483648", seed) == ScalarFault::kNone);
  CHECK(seed == 2147483648U);
}

TEST_CASE("scalars: a flag is one of six words", "[spec]") {
  for (const char* text : {"true", "True", "TRUE"}) {
    bool flag = false;
    CHECK(parse_scalar(text, flag) == ScalarFault::kNone);
    CHECK(flag);
  }
  for (const char* text : {"false", "False", "FALSE"}) {
    bool flag = true;
    CHECK(parse_scalar(text, flag) == ScalarFault::kNone);
    CHECK_FALSE(flag);
  }
  for (const char* text : {"yes", "no", "on", "off", "Off", "y", "n", "0", "1", "", "tRUE"})
    CHECK(fault_of<bool>(text) == ScalarFault::kMalformed);
}

TEST_CASE("scalars: a formatted number reads back bit for bit, and with a dot before its exponent",
          "[spec]") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bits = random();
    double value = 0;
    static_assert(sizeof(bits) == sizeof(value));
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value) || (value != 0 && std::fpclassify(value) == FP_SUBNORMAL)) continue;
    double back = 0;
    REQUIRE(parse_scalar(format_number(value), back) == ScalarFault::kNone);
    REQUIRE(std::memcmp(&value, &back, sizeof(value)) == 0);
  }
  CHECK(format_number(1e-5) == "1.0e-05");
  CHECK(format_number(3e-4) == "0.0003");
  CHECK(format_number(10000.0) == "10000");
  CHECK(format_number(0.1 + 0.2) == "0.30000000000000004");
  CHECK(std::signbit(number(format_number(-0.0).c_str())));
}
