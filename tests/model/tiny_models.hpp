#pragma once

#include <string>
#include <vector>

#include "llmtrain/spec/job_spec.hpp"

// Resolved specs, a few kilobytes each, that between them touch every option of the model.
namespace llmtrain::test {

inline ModelSpec tiny_llama() {
  ModelSpec m;
  m.vocab_size = 37;
  m.hidden_size = 16;
  m.num_layers = 2;
  m.num_heads = 4;
  m.num_kv_heads = 4;
  m.head_dim = 4;
  m.ffn_hidden_size = 24;
  m.max_position = 16;
  m.init_std = 0.2;  // larger than in practice, so that no gradient hides in rounding
  return m;
}

inline ModelSpec tiny_gpt2() {
  ModelSpec m = tiny_llama();
  m.family = Family::kGpt2;
  m.norm = NormKind::kLayerNorm;
  m.position = PositionKind::kLearned;
  m.mlp = MlpKind::kGeluTanh;
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
  m.tie_embeddings = true;
  return m;
}

inline ModelSpec tiny_mistral() {
  ModelSpec m = tiny_llama();
  m.family = Family::kMistral;
  m.num_kv_heads = 2;
  m.head_dim = 8;  // heads x head_dim is not hidden
  return m;
}

inline ModelSpec tiny_qwen2() {
  ModelSpec m = tiny_llama();
  m.family = Family::kQwen2;
  m.num_kv_heads = 1;
  m.qkv_bias = true;
  m.tie_embeddings = true;
  m.norm_eps = 1e-6;
  return m;
}

inline ModelSpec tiny_qwen3() {
  ModelSpec m = tiny_mistral();
  m.family = Family::kQwen3;
  m.qk_norm = true;
  m.norm_eps = 1e-6;
  m.rope_theta = 1e6;
  return m;
}

inline ModelSpec tiny_llama3() {
  ModelSpec m = tiny_mistral();
  m.rope_scaling = {.type = RopeScalingKind::kLlama3,
                    .factor = 8.0,
                    .low_freq_factor = 1.0,
                    .high_freq_factor = 4.0,
                    .original_max_position = 8};
  return m;
}

inline ModelSpec tiny_geglu() {
  ModelSpec m = tiny_llama();
  m.mlp = MlpKind::kGeglu;
  m.mlp_bias = m.qkv_bias = m.attention_out_bias = true;
  m.rope_scaling = {.type = RopeScalingKind::kLinear, .factor = 2.0};
  return m;
}

inline ModelSpec tiny_gelu() {
  ModelSpec m = tiny_gpt2();
  m.mlp = MlpKind::kGelu;
  m.tie_embeddings = false;
  return m;
}

struct NamedModel {
  std::string name;
  ModelSpec spec;
};

inline std::vector<NamedModel> tiny_models() {
  return {{"llama", tiny_llama()},
          {"gpt2", tiny_gpt2()},
          {"mistral", tiny_mistral()},
          {"qwen2", tiny_qwen2()},
          {"qwen3", tiny_qwen3()},
          {"llama3", tiny_llama3()},
          {"geglu", tiny_geglu()},
          {"gelu", tiny_gelu()}};
}

}  // namespace llmtrain::test
