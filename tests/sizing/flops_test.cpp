#include "llmtrain/sizing/flops.hpp"

#include <limits>
#include <vector>

#include "llmtrain/placement/parameter_table.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

ModelSpec model(
    std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, MlpKind mlp) {
  ModelSpec m;
  m.vocab_size = 101;
  m.hidden_size = hidden;
  m.num_layers = 2;
  m.num_heads = heads;
  m.num_kv_heads = kv_heads;
  m.head_dim = head_dim;
  m.ffn_hidden_size = 96;
  m.max_position = 16;
  m.mlp = mlp;
  return m;
}

// A product [m, k] x [k, n].
struct Product {
  double m, k, n;
  double flops() const { return 2 * m * k * n; }
};

// Every matrix product of one forward pass over a sequence of s tokens, listed one by one.
double forward_by_hand(const ModelSpec& spec, std::int64_t tokens) {
  const auto s = static_cast<double>(tokens), h = static_cast<double>(spec.hidden_size);
  const auto d = static_cast<double>(*spec.head_dim), f = static_cast<double>(*spec.ffn_hidden_size);
  std::vector<Product> products;
  double attention = 0;
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (std::int64_t head = 0; head < spec.num_heads; ++head) {
      products.push_back({s, h, d});  // query
      products.push_back({s, d, h});  // this head's part of the output projection
      attention += Product{s, d, s}.flops() + Product{s, s, d}.flops();  // scores, weighted values
    }
    for (std::int64_t head = 0; head < *spec.num_kv_heads; ++head) {
      products.push_back({s, h, d});  // key
      products.push_back({s, h, d});  // value
    }
    products.push_back({s, h, f});                                    // up
    products.push_back({s, f, h});                                    // down
    if (spec.mlp == MlpKind::kSwiglu) products.push_back({s, h, f});  // gate
  }
  products.push_back({s, h, static_cast<double>(spec.vocab_size)});
  double sum = attention / 2;  // causal
  for (const Product& p : products) sum += p.flops();
  return sum;
}

}  // namespace

TEST_CASE("flops: equal the sum over every matrix product", "[sizing]") {
  const ModelSpec spec = GENERATE(model(32, 4, 4, 8, MlpKind::kSwiglu),     // plain
                                  model(32, 4, 1, 8, MlpKind::kSwiglu),     // one key/value head
                                  model(32, 4, 2, 16, MlpKind::kSwiglu),    // heads x width = 2 x hidden
                                  model(32, 4, 4, 8, MlpKind::kGeluTanh));  // no gate
  for (const std::int64_t s : {1, 16, 4096})
    CHECK(model_flops(spec, s).per_token() * static_cast<double>(s) ==
          Approx(3 * forward_by_hand(spec, s)).epsilon(1e-14));
}

TEST_CASE("flops: a number worked out on paper", "[sizing]") {
  // hidden 32, 4 query heads and 1 key/value head of 8, ffn 96, vocab 101, 2 layers:
  // N = 2 x (32x32 + 2x32x8 + 32x32 + 3x32x96) + 32x101 = 2 x 11776 + 3232 = 26784
  const ModelFlops flops = model_flops(model(32, 4, 1, 8, MlpKind::kSwiglu), 16);
  CHECK(flops.matmul_parameters == 26784);
  CHECK(flops.matmul == 6.0 * 26784);
  CHECK(flops.attention == 6.0 * 2 * 32 * 16);
  CHECK(describe(flops, model(32, 4, 1, 8, MlpKind::kSwiglu), 16).find("N = 26784") != std::string::npos);
}

TEST_CASE("flops: N is what the placement table calls matrices, the lookups left out", "[sizing]") {
  ModelSpec spec = model(32, 4, 2, 8, MlpKind::kSwiglu);
  spec.tie_embeddings = GENERATE(false, true);
  spec.position = GENERATE(PositionKind::kRope, PositionKind::kLearned);
  std::int64_t n = 0;
  for (const ParamSpec& param : parameter_table(spec))
    if (param.shape.size() == 2 && param.name.find("embed") == std::string::npos) n += param.numel();
  CHECK(model_flops(spec, 16).matmul_parameters == n);
}

TEST_CASE("mfu: tied and untied heads cost the same, and the units are right", "[sizing]") {
  ModelSpec spec = model(32, 4, 2, 8, MlpKind::kSwiglu);
  spec.vocab_size = 4096;
  const double untied = model_flops(spec, 16).per_token();
  spec.tie_embeddings = true;
  CHECK(model_flops(spec, 16).per_token() == untied);
  // N = 2 x (1024 + 2x32x16 + 1024 + 9216) + 131072 = 155648; 6 N + 6 x 2 x 32 x 16 = 940032; 64 tokens in 1
  // s.
  CHECK(untied == 940032.0);
  CHECK(mfu(64.0, untied, 1e9).value() == Approx(0.060162048).epsilon(1e-12));
  CHECK_FALSE(mfu(64.0, untied, std::nullopt));
  CHECK_FALSE(mfu(64.0, untied, 0.0));
  CHECK_FALSE(mfu(std::numeric_limits<double>::infinity(), untied, 1e9));
}
