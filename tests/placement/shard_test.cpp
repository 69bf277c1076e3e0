#include "llmtrain/placement/shard.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "llmtrain/core/check.hpp"

#include "tests/placement/model_specs.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

ParamSpec find(const ModelSpec& model, const std::string& name) {
  for (const ParamSpec& param : parameter_table(model))
    if (param.name == name) return param;
  FAIL("no parameter " << name);
  return {};
}

// How many ranks hold each element, and how many of them count it.
struct Coverage {
  std::vector<int> held;
  std::vector<int> counted;
};

Coverage coverage(const ParamSpec& param, int size) {
  Coverage found{std::vector<int>(static_cast<std::size_t>(param.numel()), 0),
                 std::vector<int>(static_cast<std::size_t>(param.numel()), 0)};
  for (int rank = 0; rank < size; ++rank) {
    const ParamShard shard = shard_of(param, {rank, size});
    for (std::int64_t i = 0; i < shard.numel(); ++i) {
      const auto index = static_cast<std::size_t>(shard.global_index(i));
      ++found.held[index];
      found.counted[index] += shard.is_counted();
    }
  }
  return found;
}

ModelSpec small(std::int64_t kv_heads) {
  ModelSpec m;
  m.vocab_size = 61;
  m.hidden_size = 12;
  m.num_layers = 1;
  m.num_heads = 8;
  m.num_kv_heads = kv_heads;
  m.head_dim = 3;
  m.ffn_hidden_size = 16;
  m.max_position = 4;
  m.position = PositionKind::kLearned;
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = m.qk_norm = true;
  return m;
}

}  // namespace

TEST_CASE("shard: every element is counted by exactly one rank, and held by its replicas", "[placement]") {
  for (const std::int64_t kv_heads : {1, 2, 8})
    for (const int size : {1, 2, 4, 8})
      for (const ParamSpec& param : parameter_table(small(kv_heads))) {
        CAPTURE(kv_heads, size, param.name);
        const Coverage found = coverage(param, size);
        const int replicas = shard_of(param, {0, size}).replicas;
        CHECK(std::all_of(found.counted.begin(), found.counted.end(), [](int n) { return n == 1; }));
        CHECK(std::all_of(found.held.begin(), found.held.end(), [&](int n) { return n == replicas; }));
      }
}

TEST_CASE("shard: columns, rows and replicas by hand", "[placement]") {
  const std::string layer = "model.layers.0.";
  const ParamShard q = shard_of(find(small(2), layer + "self_attn.q_proj.weight"), {1, 4});
  CHECK(q.offset == std::vector<std::int64_t>{6, 0});  // two heads of three
  CHECK(q.extent == std::vector<std::int64_t>{6, 12});
  CHECK((q.first == 72 && q.run == 72 && q.replicas == 1));
  const ParamShard o = shard_of(find(small(2), layer + "self_attn.o_proj.weight"), {1, 4});
  CHECK(o.offset == std::vector<std::int64_t>{0, 6});
  CHECK(o.extent == std::vector<std::int64_t>{12, 6});
  CHECK((o.first == 6 && o.run == 6 && o.stride == 24));
  CHECK(o.global_index(7) == 24 + 7);
  const ParamShard k = shard_of(find(small(2), layer + "self_attn.k_proj.weight"), {3, 4});
  CHECK(k.offset == std::vector<std::int64_t>{3, 0});  // the second of two heads, shared by ranks 2 and 3
  CHECK((k.replica == 1 && k.replicas == 2));
  CHECK(shard_of(find(small(2), layer + "self_attn.q_norm.weight"), {3, 4}).replicas == 4);
}

TEST_CASE("shard: an odd vocabulary is cut without padding", "[placement]") {
  const ParamSpec embedding = find(small(2), "model.embed_tokens.weight");
  std::int64_t rows = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const ParamShard shard = shard_of(embedding, {rank, 4});
    CHECK(shard.offset[0] == rows);
    CHECK((shard.extent[0] == 15 || shard.extent[0] == 16));
    rows += shard.extent[0];
  }
  CHECK(rows == 61);
}

TEST_CASE("shard: heads that neither divide nor are divided are a broken invariant", "[placement]") {
  ModelSpec model = small(2);
  model.num_heads = 9;
  model.num_kv_heads = 3;
  CHECK_THROWS_AS(shard_of(find(model, "model.layers.0.self_attn.k_proj.weight"), {0, 4}), CheckFailure);
  CHECK_THROWS_AS(kv_head_replicas(model, 4), CheckFailure);
  CHECK(kv_head_replicas(model, 1) == 1);
  CHECK(kv_head_replicas(model, 9) == 3);
}
