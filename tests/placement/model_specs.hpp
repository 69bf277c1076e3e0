#pragma once

#include "llmtrain/spec/job_spec.hpp"

// Published models as resolved specs, written out by hand: the counts in the tests are theirs.
namespace llmtrain::test {

inline ModelSpec gpt2_124m() {
  ModelSpec m;
  m.family = Family::kGpt2;
  m.vocab_size = 50257;
  m.hidden_size = 768;
  m.num_layers = 12;
  m.num_heads = 12;
  m.num_kv_heads = 12;
  m.head_dim = 64;
  m.ffn_hidden_size = 3072;
  m.max_position = 1024;
  m.norm = NormKind::kLayerNorm;
  m.position = PositionKind::kLearned;
  m.mlp = MlpKind::kGeluTanh;
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
  m.tie_embeddings = true;
  return m;
}

inline ModelSpec llama3_8b() {
  ModelSpec m;
  m.vocab_size = 128256;
  m.hidden_size = 4096;
  m.num_layers = 32;
  m.num_heads = 32;
  m.num_kv_heads = 8;
  m.head_dim = 128;
  m.ffn_hidden_size = 14336;
  return m;
}

inline ModelSpec qwen3_06b() {
  ModelSpec m;
  m.family = Family::kQwen3;
  m.vocab_size = 151936;
  m.hidden_size = 1024;
  m.num_layers = 28;
  m.num_heads = 16;
  m.num_kv_heads = 8;
  m.head_dim = 128;
  m.ffn_hidden_size = 3072;
  m.qk_norm = true;
  m.tie_embeddings = true;
  return m;
}

inline ModelSpec qwen2_05b() {
  ModelSpec m;
  m.family = Family::kQwen2;
  m.vocab_size = 151936;
  m.hidden_size = 896;
  m.num_layers = 24;
  m.num_heads = 14;
  m.num_kv_heads = 2;
  m.head_dim = 64;
  m.ffn_hidden_size = 4864;
  m.qkv_bias = true;
  m.tie_embeddings = true;
  return m;
}

inline ModelSpec mistral_7b() {
  ModelSpec m = llama3_8b();
  m.family = Family::kMistral;
  m.vocab_size = 32000;
  return m;
}

}  // namespace llmtrain::test
