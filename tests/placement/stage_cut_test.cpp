#include "llmtrain/placement/stage_cut.hpp"

#include <algorithm>
#include <numeric>

#include "tests/placement/model_specs.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

using Layers = std::vector<std::int64_t>;

// A layer is 8,192 multiply-adds, the head `head` times as many, the embedding 32.
ModelSpec model(std::int64_t layers, double head) {
  ModelSpec m;
  m.hidden_size = 32;
  m.num_layers = layers;
  m.num_heads = m.num_kv_heads.emplace(4);
  m.head_dim = 8;
  m.ffn_hidden_size = 64;
  m.mlp = MlpKind::kGelu;
  m.vocab_size = static_cast<std::int64_t>(head * 256);
  return m;
}

Layers balanced(std::int64_t layers, double head, int virtual_stages) {
  return balanced_layers(model(layers, head), 0, virtual_stages);
}

// The slowest virtual stage, in layers, if the embedding is as fast as it looks.
double slowest(const Layers& layers, double head) {
  double most = 0;
  for (std::size_t s = 0; s < layers.size(); ++s)
    most = std::max(most, static_cast<double>(layers[s]) + (s + 1 == layers.size() ? head : 0));
  return most;
}

// Of all ways to deal layers out, with one at least between the ends.
double fastest(std::int64_t left, int virtual_stages, double head, Layers& chosen) {
  const auto stage = static_cast<int>(chosen.size());
  if (stage + 1 == virtual_stages) {
    chosen.push_back(left);
    const double result = slowest(chosen, head);
    chosen.pop_back();
    return result;
  }
  double best = 1e9;
  for (std::int64_t n = stage == 0 ? 0 : 1; n <= left; ++n) {
    chosen.push_back(n);
    best = std::min(best, fastest(left - n, virtual_stages, head, chosen));
    chosen.pop_back();
  }
  return best;
}

}  // namespace

TEST_CASE("stage cut: what divides is cut evenly while the head is no heavier than a layer", "[placement]") {
  for (const double head : {0.0, 0.25, 1.0}) {
    CHECK(balanced(8, head, 1) == Layers{8});
    CHECK(balanced(8, head, 2) == Layers{4, 4});
    CHECK(balanced(8, head, 4) == Layers{2, 2, 2, 2});
    CHECK(balanced(8, head, 8) == Layers(8, 1));
  }
}

TEST_CASE("stage cut: the head is worth layers, and what is left over goes to later stages", "[placement]") {
  CHECK(balanced(8, 1.5, 4) == Layers{2, 2, 3, 1});
  CHECK(balanced(30, 2.0, 4) == Layers{8, 8, 8, 6});
  CHECK(balanced(7, 0.25, 4) == Layers{2, 2, 2, 1});
  CHECK(balanced(6, 0.0, 4) == Layers{1, 1, 2, 2});
}

TEST_CASE("stage cut: a virtual stage without layers holds the embedding or the head", "[placement]") {
  CHECK(balanced(2, 0.5, 4) == Layers{0, 1, 1, 0});
  CHECK(balanced(3, 0.5, 4) == Layers{1, 1, 1, 0});
  CHECK(balanced(4, 9.0, 3) == Layers{2, 2, 0});
  CHECK(balanced(1, 9.0, 3) == Layers{0, 1, 0});
  CHECK(balanced(1, 9.0, 2) == Layers{1, 0});
  CHECK_THROWS(balanced(2, 0.5, 5));
}

TEST_CASE("stage cut: no other cut has a faster slowest stage", "[placement]") {
  for (const double head : {0.0, 0.75, 1.0, 2.5, 7.0})
    for (std::int64_t layers = 1; layers <= 9; ++layers)
      for (int virtual_stages = 1; virtual_stages <= std::min<std::int64_t>(5, layers + 2);
           ++virtual_stages) {
        CAPTURE(head, layers, virtual_stages);
        const Layers found = balanced(layers, head, virtual_stages);
        CHECK(std::accumulate(found.begin(), found.end(), std::int64_t{0}) == layers);
        Layers chosen;
        CHECK(slowest(found, head) == fastest(layers, virtual_stages, head, chosen));
      }
}

TEST_CASE("stage cut: published models", "[placement]") {
  // The head of Llama 3 8B is 525 M multiply-adds and a layer 252 M (with 8,192 tokens).
  CHECK(balanced_layers(test::llama3_8b(), 8192, 4) == Layers{8, 9, 9, 6});
  CHECK(balanced_layers(test::gpt2_124m(), 1024, 2) == Layers{8, 4});
}

TEST_CASE("stage cut: segments follow layers, with the embedding and the head at the ends", "[placement]") {
  using Ranges = std::vector<SegmentRange>;
  CHECK(stage_segments(Layers{8}) == Ranges{{0, 10}});
  CHECK(stage_segments(Layers{3, 5}) == Ranges{{0, 4}, {4, 10}});
  CHECK(stage_segments(Layers{0, 1, 1, 0}) == Ranges{{0, 1}, {1, 2}, {2, 3}, {3, 4}});
  CHECK(SegmentRange{1, 4}.contains(3));
  CHECK_FALSE(SegmentRange{1, 4}.contains(4));
}
