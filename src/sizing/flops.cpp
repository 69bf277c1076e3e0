#include "llmtrain/sizing/flops.hpp"

#include <cmath>

#include <fmt/format.h>

namespace llmtrain {
namespace {

bool is_gated(MlpKind kind) {
  return kind == MlpKind::kSwiglu || kind == MlpKind::kGeglu;
}

}  // namespace

ModelFlops model_flops(const ModelSpec& model, std::int64_t seq_length) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t query_width = model.num_heads * model.head_dim.value();
  const std::int64_t kv_width = model.num_kv_heads.value() * model.head_dim.value();
  const std::int64_t attention = hidden * query_width + 2 * hidden * kv_width + query_width * hidden;
  const std::int64_t mlp = (is_gated(model.mlp) ? 3 : 2) * hidden * model.ffn_hidden_size.value();

  ModelFlops flops;
  flops.matmul_parameters = model.num_layers * (attention + mlp) + hidden * model.vocab_size;
  flops.matmul = 6.0 * static_cast<double>(flops.matmul_parameters);
  flops.attention = 6.0 * static_cast<double>(model.num_layers) * static_cast<double>(query_width) *
                    static_cast<double>(seq_length);
  return flops;
}

std::string describe(const ModelFlops& flops, const ModelSpec& model, std::int64_t seq_length) {
  return fmt::format(
      "MFU = tokens/s x (6 N + 6 L H d s) / peak, with N = {} matrix parameters (no embedding lookup), L = "
      "{}, "
      "H d = {} x {}, s = {} (causal: half the pairs): {:.6g} FLOP per token",
      flops.matmul_parameters,
      model.num_layers,
      model.num_heads,
      model.head_dim.value(),
      seq_length,
      flops.per_token());
}

std::optional<double> mfu(double tokens_per_second, double flops_per_token, std::optional<double> peak) {
  if (!peak || !(*peak > 0) || !std::isfinite(tokens_per_second)) return std::nullopt;
  return tokens_per_second * flops_per_token / *peak;
}

}  // namespace llmtrain
