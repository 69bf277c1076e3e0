#include "llmtrain/placement/init.hpp"

#include <cmath>
#include <vector>

#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

const ParamSpec kEmbedding{
    .name = "model.embed_tokens.weight", .shape = {100'000, 100'000}, .init_std = 0.02};

template <class T>
std::vector<T> slice(const ParamSpec& param, std::uint64_t seed, std::int64_t first, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  init_values(param, seed, first, std::span<T>(values));
  return values;
}

}  // namespace

TEST_CASE("init: golden values, from an independent program", "[placement]") {
  // Philox in Python's integers, quantiles of its statistics module.
  CHECK(init_key(1234, "model.embed_tokens.weight") == 0xdfff3e82bb33e73bULL);
  const auto first = slice<double>(kEmbedding, 1234, 0, 5);
  CHECK(first[0] == Approx(-0.026442030163932095).epsilon(1e-14));
  CHECK(first[1] == Approx(0.02337031959625693).epsilon(1e-14));
  CHECK(first[4] == Approx(0.024546945584199464).epsilon(1e-14));
  CHECK(slice<float>(kEmbedding, 1234, 0, 1)[0] == -0.02644203044474125f);
  CHECK(slice<float>(kEmbedding, 1234, 1'000'003, 1)[0] == -0.031855929642915726f);
  CHECK(slice<float>(kEmbedding, 1234, 5'000'000'001, 1)[0] == 0.012166159227490425f);
}

TEST_CASE("init: the quantile is right in the centre, in the tails and at both ends", "[placement]") {
  CHECK(normal_quantile(0) == Approx(-6.337957754553789).epsilon(1e-14));
  CHECK(normal_quantile(0xFFFFFFFFu) == Approx(6.337957754553789).epsilon(1e-14));
  CHECK(normal_quantile(12345) == Approx(-4.535422762090429).epsilon(1e-14));
  CHECK(normal_quantile(0x0ccccccc) == Approx(-1.6448536276287282).epsilon(1e-14));
  CHECK(normal_quantile(0x80000000u) == Approx(2.9180993729166234e-10).epsilon(1e-9));
}

TEST_CASE("init: any slice made alone is the slice of the whole", "[placement]") {
  const ParamSpec param{.name = "model.layers.0.mlp.up_proj.weight", .shape = {31, 67}, .init_std = 1.0};
  const auto whole = slice<float>(param, 9, 0, param.numel());
  for (const std::int64_t first : {0, 1, 2, 3, 4, 5, 66, 67, 1000, 2076}) {
    for (const std::int64_t count : {0, 1, 2, 3, 5, 64}) {
      if (first + count > param.numel()) continue;
      const auto part = slice<float>(param, 9, first, count);
      CHECK(std::equal(part.begin(), part.end(), whole.begin() + first));
    }
  }
}

TEST_CASE("init: fp32 values are the fp64 values, rounded once", "[placement]") {
  const auto narrow = slice<float>(kEmbedding, 3, 77, 1000);
  const auto wide = slice<double>(kEmbedding, 3, 77, 1000);
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == static_cast<float>(wide[i]));
}

TEST_CASE("init: moments and tails are those of a normal distribution", "[placement]") {
  const std::int64_t n = 1'000'000;
  const auto values = slice<double>(kEmbedding, 1, 0, n);
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  std::int64_t beyond_two = 0;
  for (const double value : values) {
    const double z = value / 0.02;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    beyond_two += std::abs(z) > 2.0;
  }
  CHECK(std::abs(sum / n) < 5e-3);
  CHECK(std::abs(squares / n - 1.0) < 8e-3);
  CHECK(std::abs(fourth / n - 3.0) < 6e-2);
  CHECK(std::abs(static_cast<double>(beyond_two) / n - 0.0455) < 1.2e-3);
}

TEST_CASE("init: neighbouring seeds and names share nothing", "[placement]") {
  const auto base = slice<float>(kEmbedding, 1, 0, 1000);
  ParamSpec other = kEmbedding;
  other.name = "model.embed_tokens.weighu";
  for (const auto& values : {slice<float>(kEmbedding, 2, 0, 1000), slice<float>(other, 1, 0, 1000)}) {
    double dot = 0;
    int equal = 0;
    for (std::size_t i = 0; i < base.size(); ++i) {
      dot += static_cast<double>(base[i]) * values[i] / (0.02 * 0.02);
      equal += base[i] == values[i];
    }
    CHECK(equal == 0);
    CHECK(std::abs(dot / 1000) < 0.15);
  }
}

TEST_CASE("init: norms are ones, biases zeros, and a slice beyond the end is refused", "[placement]") {
  ParamSpec param{.name = "model.norm.weight", .shape = {5}, .init = InitRule::kOnes};
  CHECK(slice<float>(param, 1, 0, 5) == std::vector<float>(5, 1.0f));
  param.init = InitRule::kZeros;
  CHECK(slice<double>(param, 1, 1, 4) == std::vector<double>(4, 0.0));
  CHECK_THROWS_AS(slice<float>(param, 1, 2, 4), CheckFailure);
}
