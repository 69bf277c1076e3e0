#include "llmtrain/job/presets.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using test::check;
using test::messages_of;

namespace {

JobReport with_model(const std::string& model) {
  return check(
      "version: 1\nmodel: " + model +
      "\ndata: {seq_length: 256, train: synthetic}\nbatch: {micro_batch_size: 1}\ntrain: {duration: 1}\n");
}

ModelSpec model(const std::string& text) {
  const JobReport report = with_model(text);
  INFO(messages_of(report));
  REQUIRE(report.job);
  return report.job->spec.model;
}

// Weights counted by hand from the sizes, independently of the placement table.
std::int64_t weights(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t q = m.num_heads * *m.head_dim;
  const std::int64_t kv = *m.num_kv_heads * *m.head_dim;
  const bool gated = m.mlp == MlpKind::kSwiglu || m.mlp == MlpKind::kGeglu;
  const std::int64_t f = *m.ffn_hidden_size;
  const std::int64_t norm = m.norm == NormKind::kLayerNorm ? 2 * h : h;
  std::int64_t block = h * (q + 2 * kv) + q * h + (gated ? 3 : 2) * h * f + 2 * norm;
  if (m.qkv_bias) block += q + 2 * kv;
  if (m.attention_out_bias) block += h;
  if (m.mlp_bias) block += f + h;
  if (m.qk_norm) block += 2 * *m.head_dim;
  std::int64_t total = m.vocab_size * h + m.num_layers * block + norm;
  if (!m.tie_embeddings) total += m.vocab_size * h;
  if (m.position == PositionKind::kLearned) total += *m.max_position * h;
  return total;
}

}  // namespace

TEST_CASE("presets: sizes are those that were published", "[job]") {
  const struct {
    const char* name;
    std::int64_t weights;
  } published[] = {
      {"gpt2-124m", 124439808},   {"gpt2-355m", 354823168},    {"gpt2-774m", 774030080},
      {"gpt2-1.5b", 1557611200},  {"llama-7b", 6738415616},    {"llama-1b", 1235814400},
      {"llama3-8b", 8030261248},  {"llama3-70b", 70553706496}, {"llama3-405b", 405853388800},
      {"mistral-7b", 7248023552}, {"qwen2-0.5b", 494032768},   {"qwen2-1.5b", 1543714304},
      {"qwen2-7b", 7615616512},   {"qwen3-0.6b", 596049920},   {"qwen3-1.7b", 1720574976},
      {"qwen3-4b", 4022468096},   {"qwen3-8b", 8190735360},    {"gpt3-175b", 174604259328},
      {"llama-10m", 11015040},
  };
  CHECK(std::size(published) == preset_names().size());
  for (const auto& preset : published) {
    INFO(preset.name);
    CHECK(weights(model(std::string("{preset: ") + preset.name + "}")) == preset.weights);
  }
}

TEST_CASE("presets: the user's fields win over the preset, the preset over the family", "[job]") {
  const ModelSpec qwen = model("{preset: qwen3-0.6b, num_layers: 2, vocab_size: 100}");
  CHECK(qwen.num_layers == 2);
  CHECK(qwen.vocab_size == 100);
  CHECK(qwen.hidden_size == 1024);
  CHECK(qwen.head_dim == 128);  // of the family
  CHECK(qwen.qk_norm);
  CHECK(qwen.preset == "qwen3-0.6b");
  CHECK(model("{preset: llama-7b}").norm_eps == 1e-6);
  CHECK(model("{preset: llama-7b, norm_eps: 1e-3}").norm_eps == 1e-3);
  CHECK(model("{preset: llama-10m, family: qwen2}").qkv_bias);
  CHECK_FALSE(model("{preset: llama-10m, family: qwen2, qkv_bias: false}").qkv_bias);
  CHECK(model("{preset: llama-1b}").rope_scaling.type == RopeScalingKind::kLlama3);
  CHECK(model("{preset: llama-1b, rope_scaling: {factor: 4}}").rope_scaling.factor == 4);
}

TEST_CASE("presets: families bring their settings", "[job]") {
  const char* sizes = "vocab_size: 64, hidden_size: 32, num_layers: 1, num_heads: 4}";
  const ModelSpec gpt2 = model(std::string("{family: gpt2, ") + sizes);
  CHECK(gpt2.norm == NormKind::kLayerNorm);
  CHECK(gpt2.position == PositionKind::kLearned);
  CHECK(gpt2.mlp == MlpKind::kGeluTanh);
  CHECK((gpt2.qkv_bias && gpt2.attention_out_bias && gpt2.mlp_bias && gpt2.tie_embeddings));
  CHECK(gpt2.max_position == 256);
  const ModelSpec llama = model(std::string("{") + sizes);
  CHECK(llama.family == Family::kLlama);
  CHECK_FALSE((llama.qkv_bias || llama.attention_out_bias || llama.mlp_bias || llama.tie_embeddings ||
               llama.qk_norm));
  CHECK(model(std::string("{family: qwen3, ") + sizes).head_dim == 128);
  CHECK(model(std::string("{family: qwen2, ") + sizes).norm_eps == 1e-6);
  CHECK(model(std::string("{family: qwen2, ") + sizes).rope_theta == 1e6);
}

TEST_CASE("presets: a wrong size beside a preset points at the user's file", "[job]") {
  CHECK_THAT(messages_of(with_model("{preset: llama3-8b, num_kv_heads: 5}")),
             Catch::Matchers::Contains(
                 "job.yaml:2:42: model.num_kv_heads = 5: does not divide model.num_heads = 32"));
  CHECK_THAT(messages_of(with_model("{preset: llama3-8b, num_heads: 12, head_dim: 64}")),
             Catch::Matchers::Contains("preset llama3-8b: model.num_kv_heads = 8"));
}
