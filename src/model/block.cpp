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
                 const BlockPass& pass) {
  const auto normed_by = [&](const NormWeights& weights) {
    return [&weights, &context](const at::Tensor& rows) { return norm(rows, weights, context); };
  };
  const auto attend = [=, &w, &rope, &context](const at::Tensor& qkv) {
    return attention_core(qkv, w, layout, rope, context, pass.keeps_all, pass.cache);
  };
  const auto input = [&](const at::Tensor& argument, LinearInput::Function function) {
    return linear_input(argument, std::move(function), pass.keeps_all);
  };
  const at::Tensor qkv =
      column_linear(input(x, normed_by(w.attention_norm)), w.qkv, context);     // [b s, (n + 2k) d]
  const at::Tensor middle = row_linear(input(qkv, attend), w.out, context, x);  // [b s, h]
  return mlp(input(middle, normed_by(w.mlp_norm)),
             w.mlp,
             context,
             middle,
             {pass.keeps_all, pass.wants_values});  // [b s, h]
}

}  // namespace llmtrain
