#include "llmtrain/spec/quantity.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using Unit = Quantity::Unit;

namespace {

Quantity parsed(const std::string& text) {
  const auto quantity = parse_quantity(text);
  INFO(text);
  REQUIRE(quantity);
  return *quantity;
}

}  // namespace

TEST_CASE("quantity: amounts as people write them", "[spec]") {
  CHECK(parsed("2000") == steps(2000));
  CHECK(parsed("2000 steps") == steps(2000));
  CHECK(parsed("1 step") == steps(1));
  CHECK(parsed(" 2000  steps ") == steps(2000));
  CHECK(parsed("2K") == steps(2000));
  CHECK(parsed("1e3 steps") == steps(1000));
  CHECK(parsed("100B tokens") == Quantity{100e9, Unit::kTokens});
  CHECK(parsed("1.5T tokens") == Quantity{1.5e12, Unit::kTokens});
  CHECK(parsed("1e6 tokens") == Quantity{1e6, Unit::kTokens});
  CHECK(parsed("12M samples") == Quantity{12e6, Unit::kSamples});
  CHECK(parsed("10%") == Quantity{10, Unit::kPercent});
  CHECK(parsed("2.5 %") == Quantity{2.5, Unit::kPercent});
  CHECK(parsed("5 percent") == Quantity{5, Unit::kPercent});
  CHECK(parsed("0") == steps(0));
}

TEST_CASE("quantity: what is no amount is refused, and says what is allowed", "[spec]") {
  for (const char* text : {"",
                           " ",
                           "steps",
                           "abc",
                           "-1",
                           "-1 steps",
                           "-0 steps",
                           "2.5",
                           "2.5 steps",
                           "0.1K tokens x",
                           "nan",
                           "1e400 tokens",
                           "10 minutes",
                           "30 min",
                           "101%",
                           "-1%",
                           "5K%",
                           "1e17",
                           "10B B tokens",
                           "18446744073709551616",
                           "%",
                           "1 000 steps"}) {
    INFO(text);
    const auto quantity = parse_quantity(text);
    REQUIRE_FALSE(quantity);
    CHECK(to_string(quantity.error()).find("allowed: a whole number of steps") != std::string::npos);
  }
}

TEST_CASE("quantity: text and back is the same amount", "[spec]") {
  CHECK(to_string(Quantity{100e9, Unit::kTokens}) == "100B tokens");
  CHECK(to_string(Quantity{1.5e12, Unit::kTokens}) == "1500B tokens");
  CHECK(to_string(steps(2000)) == "2000 steps");
  CHECK(to_string(Quantity{10, Unit::kPercent}) == "10%");
  for (const double amount :
       {0.0, 1.0, 999.0, 1000.0, 123456789.0, 1e12, 9007199254740992.0, 9007199254740000.0})
    for (const Unit unit : {Unit::kSteps, Unit::kTokens, Unit::kSamples})
      CHECK(parsed(to_string(Quantity{amount, unit})) == Quantity{amount, unit});
  for (const double amount : {0.0, 0.1, 33.333333333333336, 1e-7, 100.0})
    CHECK(parsed(to_string(Quantity{amount, Unit::kPercent})) == Quantity{amount, Unit::kPercent});
}
