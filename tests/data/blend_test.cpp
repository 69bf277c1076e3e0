#include "llmtrain/data/blend.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

Blend make(const std::vector<double>& weights) {
  std::vector<BlendEntry> entries;
  for (const double weight : weights) entries.push_back({"source", weight, std::nullopt});
  return Blend::make(entries).value();
}

// Walks the first draws one by one and checks every promise on the way.
double worst_deviation(const std::vector<double>& weights, std::int64_t draws) {
  const Blend blend = make(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> taken(weights.size(), 0);
  double worst = 0;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const Blend::Draw at = blend.at(draw);
    REQUIRE(at.index == taken[static_cast<std::size_t>(at.source)]);  // no gap, no repeat
    ++taken[static_cast<std::size_t>(at.source)];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double wanted = weights[i] / sum * static_cast<double>(draw + 1);
      worst = std::max(worst, std::abs(static_cast<double>(taken[i]) - wanted));
    }
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    REQUIRE(blend.count(draws, static_cast<int>(i)) == taken[i]);
  return worst;
}

}  // namespace

TEST_CASE("blend: counts follow the weights at every draw", "[data]") {
  CHECK(worst_deviation({1}, 100) == 0);
  CHECK(worst_deviation({0.002, 0.998}, 2000) <= 1);  // NVIDIA/Megatron-LM#705
  CHECK(worst_deviation({0.5, 0.3, 0.2}, 3000) <= 1);
  CHECK(worst_deviation({1, 1, 1}, 3000) <= 1);
  CHECK(worst_deviation({0.4, 0.3, 0.1, 0.1, 0.05, 0.05}, 5000) < 2);
  CHECK(worst_deviation({1, 2, 3, 5, 8, 13, 21, 34, 55, 89}, 5000) < 2);
  CHECK(worst_deviation(std::vector<double>(33, 1.0), 5000) < 2);
}

TEST_CASE("blend: the first draw goes to the heaviest source, and to the first of equals", "[data]") {
  CHECK(make({0.2, 0.5, 0.3}).at(0).source == 1);
  CHECK(make({1, 1}).at(0).source == 0);
  CHECK(make({1, 1}).at(1).source == 1);
}

TEST_CASE("blend: any cursor is reached at once and agrees with its counts", "[data]") {
  const Blend blend = make({0.8, 0.15, 0.05});
  for (const std::int64_t draw :
       {std::int64_t{1} << 40, std::int64_t{1} << 50, std::int64_t{123456789012345}}) {
    std::int64_t sum = 0;
    for (int source = 0; source < 3; ++source) sum += blend.count(draw, source);
    CHECK(sum == draw);
    const Blend::Draw at = blend.at(draw);
    CHECK(at.index == blend.count(draw, at.source));
    CHECK(std::abs(static_cast<double>(blend.count(draw, 0)) - 0.8 * static_cast<double>(draw)) <
          2 + 1e-15 * static_cast<double>(draw));
  }
}

TEST_CASE("blend: a source leaves at its limit and the others go on", "[data]") {
  const Blend blend = Blend::make({{"a", 1.0, std::nullopt}, {"b", 1.0, 3}, {"c", 2.0, 10}}).value();
  CHECK_FALSE(blend.size());
  std::vector<std::int64_t> taken(3, 0);
  for (std::int64_t draw = 0; draw < 200; ++draw) {
    const Blend::Draw at = blend.at(draw);
    CHECK(at.index == taken[static_cast<std::size_t>(at.source)]++);
  }
  CHECK(taken == std::vector<std::int64_t>{187, 3, 10});
}

TEST_CASE("blend: when every source has a limit the blend ends with all of them used", "[data]") {
  const Blend blend = Blend::make({{"a", 5.0, 4}, {"b", 1.0, 7}}).value();
  REQUIRE(blend.size() == 11);
  CHECK(blend.count(11, 0) == 4);
  CHECK(blend.count(11, 1) == 7);
  CHECK_THROWS(blend.at(11));
}

TEST_CASE("blend: weights that are no weights are refused by name", "[data]") {
  for (const double weight :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto blend = Blend::make({{"web", 1.0, std::nullopt}, {"code", weight, std::nullopt}});
    REQUIRE_FALSE(blend);
    CHECK(blend.error().message.find("code") == 0);
  }
  CHECK_FALSE(Blend::make({}));
}
