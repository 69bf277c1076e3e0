#include "llmtrain/placement/parameter_table.hpp"

#include <cmath>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

// How a matrix is cut over tensor-parallel ranks: by its outputs, by its inputs, or not at all.
enum class Cut { kColumn, kRow, kNone };

class TableBuilder {
 public:
  TableBuilder(const ModelSpec& model, const TableOptions& options)
      : model_(model),
        options_(options),
        kv_heads_(model.num_kv_heads.value()),
        head_dim_(model.head_dim.value()),
        ffn_(model.ffn_hidden_size.value()),
        out_std_(model.init_std / std::sqrt(2.0 * static_cast<double>(model.num_layers))) {}

  std::vector<ParamSpec> build() && {
    embedding();
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) block(layer);
    head();
    return std::move(table_);
  }

 private:
  void embedding() {
    segment_ = 0;
    matrix("model.embed_tokens.weight", model_.vocab_size, model_.hidden_size, Cut::kColumn, model_.init_std);
    table_.back().decay = options_.decay_embeddings;
    if (model_.position != PositionKind::kLearned) return;
    matrix("model.position_embeddings.weight",
           model_.max_position.value(),
           model_.hidden_size,
           Cut::kNone,
           model_.init_std);
    table_.back().decay = options_.decay_embeddings;
  }

  void block(std::int64_t layer) {
    segment_ = static_cast<SegmentIndex>(layer + 1);
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const std::int64_t hidden = model_.hidden_size;
    const std::int64_t q_out = model_.num_heads * head_dim_;
    const std::int64_t kv_out = kv_heads_ * head_dim_;

    norm(prefix + "input_layernorm", hidden);
    const std::string attention = prefix + "self_attn.";
    matrix(attention + "q_proj.weight", q_out, hidden, Cut::kColumn, model_.init_std);
    by_heads();
    matrix(attention + "k_proj.weight", kv_out, hidden, Cut::kColumn, model_.init_std);
    by_shared_heads();
    matrix(attention + "v_proj.weight", kv_out, hidden, Cut::kColumn, model_.init_std);
    by_shared_heads();
    if (model_.qkv_bias) {
      bias(attention + "q_proj.bias", q_out, Cut::kColumn);
      by_heads();
      bias(attention + "k_proj.bias", kv_out, Cut::kColumn);
      by_shared_heads();
      bias(attention + "v_proj.bias", kv_out, Cut::kColumn);
      by_shared_heads();
    }
    if (model_.qk_norm) {
      for (const char* name : {"q_norm.weight", "k_norm.weight"}) {
        vector(attention + name, head_dim_, InitRule::kOnes);
        table_.back().partial_grad = true;  // a rank norms its own heads only
      }
    }
    matrix(attention + "o_proj.weight", hidden, q_out, Cut::kRow, out_std_);
    by_heads();
    if (model_.attention_out_bias) bias(attention + "o_proj.bias", hidden, Cut::kNone);

    norm(prefix + "post_attention_layernorm", hidden);
    mlp(prefix + "mlp.");
  }

  void mlp(const std::string& prefix) {
    const bool gated = model_.mlp == MlpKind::kSwiglu || model_.mlp == MlpKind::kGeglu;
    if (gated) matrix(prefix + "gate_proj.weight", ffn_, model_.hidden_size, Cut::kColumn, model_.init_std);
    matrix(prefix + "up_proj.weight", ffn_, model_.hidden_size, Cut::kColumn, model_.init_std);
    if (model_.mlp_bias) {
      if (gated) bias(prefix + "gate_proj.bias", ffn_, Cut::kColumn);
      bias(prefix + "up_proj.bias", ffn_, Cut::kColumn);
    }
    matrix(prefix + "down_proj.weight", model_.hidden_size, ffn_, Cut::kRow, out_std_);
    if (model_.mlp_bias) bias(prefix + "down_proj.bias", model_.hidden_size, Cut::kNone);
  }

  void head() {
    segment_ = static_cast<SegmentIndex>(model_.num_layers + 1);
    norm("model.norm", model_.hidden_size);
    matrix("lm_head.weight", model_.vocab_size, model_.hidden_size, Cut::kColumn, model_.init_std);
    table_.back().grad_in_forward = true;
    if (!model_.tie_embeddings) return;
    table_.back().tied_with = "model.embed_tokens.weight";
    table_.back().decay = options_.decay_embeddings;
  }

  void matrix(std::string name, std::int64_t out, std::int64_t in, Cut cut, double std) {
    ParamSpec param{
        .name = std::move(name), .shape = {out, in}, .init_std = std, .decay = true, .segment = segment_};
    if (cut != Cut::kNone) param.cut_dim = cut == Cut::kColumn ? 0 : 1;
    table_.push_back(std::move(param));
  }

  void vector(std::string name, std::int64_t extent, InitRule rule) {
    table_.push_back({.name = std::move(name), .shape = {extent}, .init = rule, .segment = segment_});
  }

  void bias(std::string name, std::int64_t extent, Cut cut) {
    vector(std::move(name), extent, InitRule::kZeros);
    if (cut == Cut::kColumn) table_.back().cut_dim = 0;
  }

  // The newest parameter is cut between heads, never inside one.
  void by_heads() { table_.back().cut_unit = head_dim_; }
  // Ranks may hold the same key/value head; each sees the gradient that comes from its own query heads.
  void by_shared_heads() {
    by_heads();
    table_.back().partial_grad = true;
  }

  void norm(const std::string& name, std::int64_t extent) {
    vector(name + ".weight", extent, InitRule::kOnes);
    table_.back().partial_grad = options_.shard_sequence;
    if (model_.norm != NormKind::kLayerNorm) return;
    vector(name + ".bias", extent, InitRule::kZeros);
    table_.back().partial_grad = options_.shard_sequence;
  }

  const ModelSpec& model_;
  TableOptions options_;
  std::int64_t kv_heads_;
  std::int64_t head_dim_;
  std::int64_t ffn_;
  double out_std_;  // of the two projections that write to the residual stream
  SegmentIndex segment_ = 0;
  std::vector<ParamSpec> table_;
};

}  // namespace

std::vector<ParamSpec> parameter_table(const ModelSpec& model, const TableOptions& options) {
  LLMTRAIN_CHECK(
      model.num_kv_heads && model.head_dim && model.ffn_hidden_size,
      "parameter_table needs a resolved model: num_kv_heads, head_dim and ffn_hidden_size are set by job");
  LLMTRAIN_CHECK(model.position != PositionKind::kLearned || model.max_position,
                 "parameter_table needs a resolved model: max_position sizes the learned position table");
  return TableBuilder(model, options).build();
}

std::int64_t parameter_count(const std::vector<ParamSpec>& table) {
  std::int64_t count = 0;
  for (const ParamSpec& param : table)
    if (param.tied_with.empty()) count += param.numel();
  return count;
}

}  // namespace llmtrain
