#include "llmtrain/placement/parameter_table.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "llmtrain/core/check.hpp"

#include "tests/placement/model_specs.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

const ParamSpec& find(const std::vector<ParamSpec>& table, const std::string& name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const ParamSpec& p) { return p.name == name; });
  INFO("parameter " << name);
  REQUIRE(found != table.end());
  return *found;
}

std::vector<std::string> names_of(const std::vector<ParamSpec>& table, SegmentIndex segment) {
  std::vector<std::string> names;
  for (const ParamSpec& param : table)
    if (param.segment == segment) names.push_back(param.name);
  return names;
}

}  // namespace

TEST_CASE("parameter table: sizes of published models are theirs", "[placement]") {
  CHECK(parameter_count(parameter_table(gpt2_124m())) == 124'439'808);
  CHECK(parameter_count(parameter_table(llama3_8b())) == 8'030'261'248);
  CHECK(parameter_count(parameter_table(qwen3_06b())) == 596'049'920);
  CHECK(parameter_count(parameter_table(qwen2_05b())) == 494'032'768);
  CHECK(parameter_count(parameter_table(mistral_7b())) == 7'241'732'096);
}

TEST_CASE("parameter table: names are those of Hugging Face's llama, in segment order", "[placement]") {
  const auto table = parameter_table(llama3_8b());
  CHECK(names_of(table, 0) == std::vector<std::string>{"model.embed_tokens.weight"});
  CHECK(names_of(table, 8) == std::vector<std::string>{"model.layers.7.input_layernorm.weight",
                                                       "model.layers.7.self_attn.q_proj.weight",
                                                       "model.layers.7.self_attn.k_proj.weight",
                                                       "model.layers.7.self_attn.v_proj.weight",
                                                       "model.layers.7.self_attn.o_proj.weight",
                                                       "model.layers.7.post_attention_layernorm.weight",
                                                       "model.layers.7.mlp.gate_proj.weight",
                                                       "model.layers.7.mlp.up_proj.weight",
                                                       "model.layers.7.mlp.down_proj.weight"});
  CHECK(names_of(table, 33) == std::vector<std::string>{"model.norm.weight", "lm_head.weight"});
  std::set<std::string> unique;
  for (const ParamSpec& param : table) CHECK(unique.insert(param.name).second);
  CHECK(std::is_sorted(table.begin(), table.end(), [](const ParamSpec& a, const ParamSpec& b) {
    return a.segment < b.segment;
  }));
}

TEST_CASE("parameter table: biases, qk-norms and learned positions are listed where the model has them",
          "[placement]") {
  const auto gpt2 = parameter_table(gpt2_124m());
  CHECK(names_of(gpt2, 0) ==
        std::vector<std::string>{"model.embed_tokens.weight", "model.position_embeddings.weight"});
  CHECK(names_of(gpt2, 1) == std::vector<std::string>{"model.layers.0.input_layernorm.weight",
                                                      "model.layers.0.input_layernorm.bias",
                                                      "model.layers.0.self_attn.q_proj.weight",
                                                      "model.layers.0.self_attn.k_proj.weight",
                                                      "model.layers.0.self_attn.v_proj.weight",
                                                      "model.layers.0.self_attn.q_proj.bias",
                                                      "model.layers.0.self_attn.k_proj.bias",
                                                      "model.layers.0.self_attn.v_proj.bias",
                                                      "model.layers.0.self_attn.o_proj.weight",
                                                      "model.layers.0.self_attn.o_proj.bias",
                                                      "model.layers.0.post_attention_layernorm.weight",
                                                      "model.layers.0.post_attention_layernorm.bias",
                                                      "model.layers.0.mlp.up_proj.weight",
                                                      "model.layers.0.mlp.up_proj.bias",
                                                      "model.layers.0.mlp.down_proj.weight",
                                                      "model.layers.0.mlp.down_proj.bias"});
  const auto qwen3 = parameter_table(qwen3_06b());
  CHECK(find(qwen3, "model.layers.3.self_attn.q_norm.weight").shape == std::vector<std::int64_t>{128});
  CHECK(find(qwen3, "model.layers.3.self_attn.k_proj.weight").shape == std::vector<std::int64_t>{1024, 1024});
  CHECK(find(qwen3, "model.layers.3.self_attn.o_proj.weight").shape == std::vector<std::int64_t>{1024, 2048});
}

TEST_CASE("parameter table: a tied head names its holder and owns nothing", "[placement]") {
  const auto table = parameter_table(qwen3_06b());
  CHECK(find(table, "lm_head.weight").tied_with == "model.embed_tokens.weight");
  CHECK(find(parameter_table(llama3_8b()), "lm_head.weight").tied_with.empty());
}

TEST_CASE("parameter table: norms and biases never decay, embeddings only when asked", "[placement]") {
  for (const ModelSpec& model : {gpt2_124m(), qwen3_06b(), qwen2_05b(), llama3_8b()}) {
    for (const ParamSpec& param : parameter_table(model)) {
      INFO("parameter " << param.name);
      const bool embedding = param.segment == 0;
      const bool tied_head = !param.tied_with.empty();
      CHECK(param.decay == (param.shape.size() == 2 && !embedding && !tied_head));
    }
    CHECK(find(parameter_table(model, {.decay_embeddings = true}), "model.embed_tokens.weight").decay);
    CHECK_FALSE(find(parameter_table(model, {.decay_embeddings = true}), "model.norm.weight").decay);
  }
}

TEST_CASE("parameter table: projections into the residual stream start smaller", "[placement]") {
  const auto table = parameter_table(llama3_8b());
  CHECK(find(table, "model.layers.0.self_attn.q_proj.weight").init_std == 0.02);
  CHECK(find(table, "model.layers.0.self_attn.o_proj.weight").init_std == Approx(0.02 / std::sqrt(64.0)));
  CHECK(find(table, "model.layers.31.mlp.down_proj.weight").init_std == Approx(0.02 / std::sqrt(64.0)));
  CHECK(find(table, "lm_head.weight").init_std == 0.02);
  CHECK(find(table, "model.norm.weight").init == InitRule::kOnes);
  CHECK(find(parameter_table(gpt2_124m()), "model.norm.bias").init == InitRule::kZeros);
}

TEST_CASE("parameter table: tensor-parallel cuts go by output, then by input", "[placement]") {
  const auto table = parameter_table(gpt2_124m());
  const std::string layer = "model.layers.5.";
  for (const char* name :
       {"self_attn.q_proj.weight", "self_attn.v_proj.bias", "mlp.up_proj.weight", "mlp.up_proj.bias"})
    CHECK(find(table, layer + name).cut_dim == 0);
  for (const char* name : {"self_attn.o_proj.weight", "mlp.down_proj.weight"})
    CHECK(find(table, layer + name).cut_dim == 1);
  for (const char* name : {"self_attn.o_proj.bias", "mlp.down_proj.bias", "input_layernorm.weight"})
    CHECK_FALSE(find(table, layer + name).cut_dim.has_value());
  CHECK(find(table, "model.embed_tokens.weight").cut_dim == 0);
}

TEST_CASE("parameter table: an unresolved model is refused", "[placement]") {
  ModelSpec model = llama3_8b();
  model.head_dim.reset();
  CHECK_THROWS_AS(parameter_table(model), CheckFailure);
}
