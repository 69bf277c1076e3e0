#include "block.hpp"

#include <fmt/format.h>

#include "llmtrain/core/division.hpp"

namespace llmtrain {

BlockWeights block_weights(const FlatParameters& params, const ModelSpec& model, std::int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string attention = prefix + "self_attn.";
  const std::int64_t head_dim = model.head_dim.value();
  return {.heads = exact_div(params.view(attention + "q_proj.weight").weight.size(0), head_dim),
          .kv_heads = exact_div(params.view(attention + "k_proj.weight").weight.size(0), head_dim),
          .head_dim = head_dim,
          .attention_norm = norm_weights(params, model, prefix + "input_layernorm"),
          .qkv = linear_weights(params, {attention + "q_proj", attention + "k_proj", attention + "v_proj"}),
          .q_norm = params.view(attention + "q_norm.weight"),
          .k_norm = params.view(attention + "k_norm.weight"),
          .qk_eps = model.norm_eps,
          .out = linear_weights(params, {attention + "o_proj"}),
          .mlp_norm = norm_weights(params, model, prefix + "post_attention_layernorm"),
          .mlp = mlp_weights(params, model, prefix + "mlp.")};
}

at::Tensor block(const at::Tensor& x,
                 const BlockWeights& w,
                 const SequenceLayout& layout,
                 const RopeTables& rope,
                 const GradientContext& context,
                 Recompute recompute,
                 KvCache::Layer* cache) {
  const bool keeps = recompute != Recompute::kSelective;
  const auto normed_by = [&](const NormWeights& weights) {
    return [&weights, &context](const at::Tensor& rows) { return norm(rows, weights, context); };
  };
  const auto attend = [=, &w, &rope, &context](const at::Tensor& qkv) {
    return attention_core(qkv, w, layout, rope, context, keeps, cache);
  };
  const at::Tensor qkv = column_linear(
      linear_input(x, normed_by(w.attention_norm), keeps), w.qkv, context);  // [b s, (n + 2k) d]
  const at::Tensor middle = row_linear(linear_input(qkv, attend, keeps), w.out, context, x);      // [b s, h]
  return mlp(linear_input(middle, normed_by(w.mlp_norm), keeps), w.mlp, context, middle, keeps);  // [b s, h]
}

}  // namespace llmtrain
