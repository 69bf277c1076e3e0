#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "tests/model/model_fixture.hpp"
#include "tests/model/tiny_models.hpp"

// Writes what our model computes, for hf_oracle.py to compare with Hugging Face's:
//   DIR/<model>/meta.json, tokens.npy, labels.npy, logits.npy, weights/<name>.npy, grads/<name>.npy
// All fp32 (int64 for tokens). Usage: model_oracle_dump DIR
using namespace llmtrain;
using namespace llmtrain::test;

namespace {

void write_npy(const std::filesystem::path& path,
               const void* data,
               std::size_t bytes,
               const char* type,
               const std::vector<std::int64_t>& shape) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", type);
  for (const std::int64_t extent : shape) header += fmt::format("{},", extent);
  header += "), }";
  while ((header.size() + 11) % 64 != 0) header += ' ';  // magic, version and length take 10, newline 1
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<std::uint16_t>(header.size());
  file.put(static_cast<char>(length & 0xFF)).put(static_cast<char>(length >> 8));
  file << header;
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

void write_npy(const std::filesystem::path& path,
               const at::Tensor& tensor,
               const std::vector<std::int64_t>& shape) {
  const at::Tensor whole = tensor.contiguous();
  const char* type = whole.scalar_type() == at::kLong ? "<i8" : "<f4";
  write_npy(path, whole.data_ptr(), whole.nbytes(), type, shape);
}

const char* activation_name(MlpKind kind) {
  switch (kind) {
    case MlpKind::kSwiglu: return "silu";
    case MlpKind::kGeglu: return "gelu_pytorch_tanh";
    case MlpKind::kGelu: return "gelu";
    case MlpKind::kGeluTanh: return "gelu_new";
  }
  return "?";
}

std::string rope_json(const ModelSpec& m) {
  const RopeScalingSpec& s = m.rope_scaling;
  std::string text = fmt::format("\"rope_theta\": {}", m.rope_theta);
  if (s.type == RopeScalingKind::kLinear)
    text += fmt::format(", \"rope_type\": \"linear\", \"factor\": {:.1f}", s.factor);
  if (s.type == RopeScalingKind::kLlama3)
    text += fmt::format(
        ", \"rope_type\": \"llama3\", \"factor\": {:.1f}, \"low_freq_factor\": {:.1f}, \"high_freq_factor\": "
        "{:.1f}, "
        "\"original_max_position_embeddings\": {}",
        s.factor,
        s.low_freq_factor,
        s.high_freq_factor,
        s.original_max_position);
  return "{" + text + "}";
}

void write_meta(const std::filesystem::path& path, const ModelSpec& m, double loss) {
  static constexpr const char* kFamilies[] = {"gpt2", "llama", "mistral", "qwen2", "qwen3"};
  std::ofstream(path) << fmt::format(
      R"({{"family": "{}", "vocab_size": {}, "hidden_size": {}, "num_layers": {}, "num_heads": {}, "num_kv_heads": {},
 "head_dim": {}, "ffn_hidden_size": {}, "max_position": {}, "norm_eps": {}, "activation": "{}", "rope": {},
 "qkv_bias": {}, "mlp_bias": {}, "tie_embeddings": {}, "mean_loss": {:.9g}}})",
      kFamilies[static_cast<int>(m.family)],
      m.vocab_size,
      m.hidden_size,
      m.num_layers,
      m.num_heads,
      *m.num_kv_heads,
      *m.head_dim,
      *m.ffn_hidden_size,
      *m.max_position,
      m.norm_eps,
      activation_name(m.mlp),
      rope_json(m),
      m.qkv_bias,
      m.mlp_bias,
      m.tie_embeddings,
      loss);
}

void dump(const std::filesystem::path& dir, const ModelSpec& spec) {
  std::filesystem::create_directories(dir / "weights");
  std::filesystem::create_directories(dir / "grads");
  TestModel model(spec, DType::kFp32, 5);
  const MicroBatch batch = random_batch(3, 16, spec.vocab_size);
  const LossSums counted = model.transformer.evaluate(batch);
  const LossSums sums = model.transformer.forward(batch, 1.0 / static_cast<double>(counted.tokens));
  model.transformer.backward();
  write_npy(dir / "tokens.npy", batch.tokens, {3, 16});
  write_npy(dir / "labels.npy", batch.labels, {3, 16});
  write_npy(dir / "logits.npy", model.transformer.logits(batch.tokens), {3, 16, spec.vocab_size});
  for (int i = 0; i < model.params.num_segments(); ++i) {
    for (const ParamSlice& slice : model.params.segment(i).slices) {
      write_npy(dir / "weights" / (slice.spec->name + ".npy"), slice.weight, slice.spec->shape);
      write_npy(dir / "grads" / (slice.spec->name + ".npy"), slice.grad, slice.spec->shape);
    }
  }
  write_meta(dir / "meta.json", spec, sums.loss / static_cast<double>(sums.tokens));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: model_oracle_dump DIR\n");
    return 2;
  }
  for (const auto& [name, spec] : tiny_models()) dump(std::filesystem::path(argv[1]) / name, spec);
  return 0;
}
