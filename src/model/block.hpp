#pragma once

#include "llmtrain/model/documents.hpp"
#include "llmtrain/model/kv_cache.hpp"
#include "llmtrain/model/rope.hpp"
#include "llmtrain/placement/sequence_cut.hpp"

#include "linear.hpp"
#include "mlp.hpp"
#include "norm.hpp"

// One block of the transformer: x + attention(norm(x)), then + mlp(norm(.)). Heads, and the width between the
// two projections of the mlp, are those of this rank.
namespace llmtrain {

struct BlockWeights {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  NormWeights attention_norm;
  LinearWeights qkv;  // [(n + 2k) d, h]
  WeightView q_norm;  // [d], when the model has them
  WeightView k_norm;  // [d]
  double qk_eps = 1e-5;
  LinearWeights out;  // [h, n d]
  NormWeights mlp_norm;
  MlpWeights mlp;
};

BlockWeights block_weights(const FlatParameters& params, const ModelSpec& model, std::int64_t layer);

// How the rows of a block's input are sequences, and where they stand.
struct SequenceLayout {
  std::int64_t batch = 0;
  std::int64_t length = 0;       // rows of one sequence here
  std::vector<TokenRun> runs{};  // where they stand in the whole sequence; `length` tokens in all
  Documents documents{};         // that attention stays inside

  std::int64_t position_of(std::int64_t row) const {
    std::int64_t token = row % length;
    std::size_t run = 0;
    for (; token >= runs[run].count; ++run) token -= runs[run].count;
    return runs[run].first + token;
  }
};

struct BlockPass {
  // The graph holds everything; else what products with weights made, and neither norms nor the results of
  // attention and activation, which backward makes again.
  bool keeps_all = true;
  bool wants_values = true;  // of the output; else only the graph behind it
  // Keys and values are added to it behind what it has, and attention runs over everything cached; no
  // gradient then.
  KvCache::Layer* cache = nullptr;
};

// x [b s, h] -> [b s, h]
at::Tensor block(const at::Tensor& x,
                 const BlockWeights& w,
                 const SequenceLayout& layout,
                 const RopeTables& rope,
                 const GradientContext& context,
                 const BlockPass& pass = {});

// The part between the projections: qk-norm, rotation, attention. qkv [b s, (n + 2k) d] -> [b s, n d].
// May compute in the memory of qkv unless the caller needs it again.
at::Tensor attention_core(const at::Tensor& qkv,
                          const BlockWeights& w,
                          const SequenceLayout& layout,
                          const RopeTables& rope,
                          const GradientContext& context,
                          bool may_overwrite,
                          KvCache::Layer* cache);

}  // namespace llmtrain
