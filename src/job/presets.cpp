#include "llmtrain/job/presets.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/spec/tree.hpp"

namespace llmtrain {
namespace {

struct NamedFields {
  std::string_view name;
  const char* fields;  // YAML, like a `model` section
};

constexpr std::array kFamilies = {
    NamedFields{"gpt2",
                "{norm: layernorm, norm_eps: 1e-5, position: learned, mlp: gelu_tanh, qkv_bias: true,"
                " attention_out_bias: true, mlp_bias: true, tie_embeddings: true}"},
    NamedFields{"llama", "{norm: rmsnorm, norm_eps: 1e-5, position: rope, mlp: swiglu}"},
    NamedFields{"mistral", "{norm: rmsnorm, norm_eps: 1e-5, position: rope, mlp: swiglu}"},
    NamedFields{
        "qwen2",
        "{norm: rmsnorm, norm_eps: 1e-6, position: rope, rope_theta: 1e6, mlp: swiglu, qkv_bias: true}"},
    NamedFields{"qwen3",
                "{norm: rmsnorm, norm_eps: 1e-6, position: rope, rope_theta: 1e6, mlp: swiglu, qk_norm: "
                "true, head_dim: 128}"},
};

// Sizes as published with the models; `llama-10m` is ours, for benchmarks on a CPU.
constexpr std::array kPresets = {
    NamedFields{"llama-10m",
                "{family: llama, vocab_size: 512, hidden_size: 384, num_layers: 6, num_heads: 6, "
                "ffn_hidden_size: 1024}"},
    NamedFields{"llama-1b",  // Llama 3.2 1B
                "{family: llama, vocab_size: 128256, hidden_size: 2048, num_layers: 16, num_heads: 32, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 8192, rope_theta: 5e5, tie_embeddings: true, rope_scaling: {type: llama3, "
                "factor: 32,"
                " low_freq_factor: 1, high_freq_factor: 4, original_max_position: 8192}}"},
    NamedFields{"llama-7b",
                "{family: llama, vocab_size: 32000, hidden_size: 4096, num_layers: 32, num_heads: 32,"
                " ffn_hidden_size: 11008, norm_eps: 1e-6}"},
    NamedFields{"llama3-8b",
                "{family: llama, vocab_size: 128256, hidden_size: 4096, num_layers: 32, num_heads: 32, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 14336, rope_theta: 5e5}"},
    NamedFields{"llama3-70b",
                "{family: llama, vocab_size: 128256, hidden_size: 8192, num_layers: 80, num_heads: 64, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 28672, rope_theta: 5e5}"},
    NamedFields{"llama3-405b",
                "{family: llama, vocab_size: 128256, hidden_size: 16384, num_layers: 126, num_heads: 128, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 53248, rope_theta: 5e5, rope_scaling: {type: llama3, factor: 8, "
                "low_freq_factor: 1,"
                " high_freq_factor: 4, original_max_position: 8192}}"},
    NamedFields{"gpt2-124m",
                "{family: gpt2, vocab_size: 50257, hidden_size: 768, num_layers: 12, num_heads: 12, "
                "max_position: 1024}"},
    NamedFields{"gpt2-355m",
                "{family: gpt2, vocab_size: 50257, hidden_size: 1024, num_layers: 24, num_heads: 16, "
                "max_position: 1024}"},
    NamedFields{"gpt2-774m",
                "{family: gpt2, vocab_size: 50257, hidden_size: 1280, num_layers: 36, num_heads: 20, "
                "max_position: 1024}"},
    NamedFields{"gpt2-1.5b",
                "{family: gpt2, vocab_size: 50257, hidden_size: 1600, num_layers: 48, num_heads: 25, "
                "max_position: 1024}"},
    NamedFields{"gpt3-175b",
                "{family: gpt2, vocab_size: 50257, hidden_size: 12288, num_layers: 96, num_heads: 96, "
                "max_position: 2048}"},
    NamedFields{"mistral-7b",  // v0.3: no sliding window
                "{family: mistral, vocab_size: 32768, hidden_size: 4096, num_layers: 32, num_heads: 32, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 14336, rope_theta: 1e6}"},
    NamedFields{"qwen2-0.5b",
                "{family: qwen2, vocab_size: 151936, hidden_size: 896, num_layers: 24, num_heads: 14, "
                "num_kv_heads: 2,"
                " ffn_hidden_size: 4864, tie_embeddings: true}"},
    NamedFields{"qwen2-1.5b",
                "{family: qwen2, vocab_size: 151936, hidden_size: 1536, num_layers: 28, num_heads: 12, "
                "num_kv_heads: 2,"
                " ffn_hidden_size: 8960, tie_embeddings: true}"},
    NamedFields{"qwen2-7b",
                "{family: qwen2, vocab_size: 152064, hidden_size: 3584, num_layers: 28, num_heads: 28, "
                "num_kv_heads: 4,"
                " ffn_hidden_size: 18944}"},
    NamedFields{"qwen3-0.6b",
                "{family: qwen3, vocab_size: 151936, hidden_size: 1024, num_layers: 28, num_heads: 16, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 3072, tie_embeddings: true}"},
    NamedFields{"qwen3-1.7b",
                "{family: qwen3, vocab_size: 151936, hidden_size: 2048, num_layers: 28, num_heads: 16, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 6144, tie_embeddings: true}"},
    NamedFields{"qwen3-4b",
                "{family: qwen3, vocab_size: 151936, hidden_size: 2560, num_layers: 36, num_heads: 32, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 9728, tie_embeddings: true}"},
    NamedFields{"qwen3-8b",
                "{family: qwen3, vocab_size: 151936, hidden_size: 4096, num_layers: 36, num_heads: 32, "
                "num_kv_heads: 8,"
                " ffn_hidden_size: 12288}"},
};

template <std::size_t N>
std::optional<YamlNode> fields_of(const std::array<NamedFields, N>& table,
                                  std::string_view name,
                                  const char* kind) {
  const auto found = std::find_if(
      table.begin(), table.end(), [name](const NamedFields& entry) { return entry.name == name; });
  if (found == table.end()) return std::nullopt;
  Diagnostics diagnostics;
  const Origin origin{std::make_shared<const std::string>(fmt::format("{} {}", kind, name)), 0, 0};
  YamlNode node = parse_yaml_value(found->fields, origin, diagnostics);
  LLMTRAIN_CHECK(!diagnostics.has_errors(), "{} {} does not parse", kind, name);
  return node;
}

}  // namespace

std::optional<YamlNode> preset_fields(std::string_view name) {
  return fields_of(kPresets, name, "preset");
}
std::optional<YamlNode> family_fields(std::string_view name) {
  return fields_of(kFamilies, name, "family");
}

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const NamedFields& preset : kPresets) names.push_back(preset.name);
  return names;
}

void apply_preset(YamlNode& root, Diagnostics& diagnostics) {
  YamlNode* model = root.find("model");
  if (model == nullptr || !model->is_map()) return;
  YamlNode fields = map_node();
  fields.origin = model->origin;
  const YamlNode* preset = model->find("preset");
  if (preset != nullptr && preset->is_scalar() && !preset->text.empty()) {
    if (auto known = preset_fields(preset->text)) {
      fields = std::move(*known);
    } else {
      diagnostics.error(
          preset->origin,
          "model.preset",
          fmt::format("= {}: unknown; allowed: {}", preset->text, fmt::join(preset_names(), ", ")));
    }
  }
  const Origin origin = model->origin;
  merge(fields, *model);
  const YamlNode* family = fields.find("family");
  const std::string name = family != nullptr && family->is_scalar() ? family->text : "llama";
  YamlNode defaults =
      family_fields(name).value_or(map_node());  // an unknown family is the reader's to refuse
  merge(defaults, fields);
  defaults.origin = origin;
  *model = std::move(defaults);
}

}  // namespace llmtrain
