#include "llmtrain/train/sampling.hpp"

#include <array>
#include <cmath>
#include <set>

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("sampling: temperature 0 takes the most likely token, ties the smaller id", "[train]") {
  const std::array<float, 4> logits = {0.0F, 2.0F, 2.0F, 1.0F};
  for (int i = 0; i < 20; ++i) CHECK(sample_token(logits, {.temperature = 0}, i) == 1);
}

TEST_CASE("sampling: draws follow the softmax", "[train]") {
  const std::array<float, 3> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  std::array<int, 3> counts{};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i)
    ++counts[static_cast<std::size_t>(sample_token(logits, {.temperature = 1.0, .seed = 7}, i))];
  CHECK(counts[0] / double{kDraws} == Approx(0.5).margin(0.015));
  CHECK(counts[1] / double{kDraws} == Approx(0.3).margin(0.015));
}

TEST_CASE("sampling: top-k and top-p cut the tail", "[train]") {
  const std::array<float, 4> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  std::set<int> by_k;
  std::set<int> by_p;
  for (int i = 0; i < 2000; ++i) {
    by_k.insert(sample_token(logits, {.temperature = 1.0, .top_k = 2}, i));
    by_p.insert(sample_token(logits, {.temperature = 1.0, .top_p = 0.9}, i));
  }
  CHECK(by_k == std::set<int>{0, 1});
  CHECK(by_p == std::set<int>{0, 1, 2});
}

TEST_CASE("sampling: a seed repeats its draws and another seed does not", "[train]") {
  const std::array<float, 8> logits{};
  int same = 0;
  for (int i = 0; i < 200; ++i) {
    const SamplingOptions seven{.temperature = 1.0, .seed = 7};
    CHECK(sample_token(logits, seven, i) == sample_token(logits, seven, i));
    same += sample_token(logits, seven, i) == sample_token(logits, {.temperature = 1.0, .seed = 8}, i);
  }
  CHECK(same < 100);
}
