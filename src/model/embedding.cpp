#include "embedding.hpp"

#include <ATen/ops/index_select.h>

#include "llmtrain/core/check.hpp"

#include "rows.hpp"

// Shapes: b sequences of s tokens, h width.
namespace llmtrain {
namespace {

void check_tokens(const at::Tensor& tokens, std::int64_t vocab) {
  const std::int64_t* ids = tokens.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < tokens.numel(); ++i)
    LLMTRAIN_CHECK(
        ids[i] >= 0 && ids[i] < vocab,
        "token {} at index {} is outside the vocabulary of {}; check data against model.vocab_size",
        ids[i],
        i,
        vocab);
}

// Rows of this rank's tokens; zero for those of other ranks.
at::Tensor look_up(const at::Tensor& ids, const EmbeddingWeights& w) {
  if (w.vocabulary.is_whole()) return at::index_select(w.tokens.weight, 0, ids);       // [b s, h]
  const at::Tensor own = ids.sub(w.vocabulary.first);                                  // [b s]
  const at::Tensor elsewhere = own.lt(0).logical_or_(own.ge(w.vocabulary.count));      // [b s]
  at::Tensor x = at::index_select(w.tokens.weight, 0, own.masked_fill(elsewhere, 0));  // [b s, h]
  return x.masked_fill_(elsewhere.unsqueeze(1), 0);                                    // [b s, h]
}

}  // namespace

EmbeddingWeights embedding_weights(const FlatParameters& params) {
  return {.tokens = params.view("model.embed_tokens.weight"),
          .vocabulary = vocabulary_part(params, "model.embed_tokens.weight"),
          .positions = params.view("model.position_embeddings.weight")};
}

at::Tensor embed(const at::Tensor& tokens,
                 const EmbeddingWeights& w,
                 const SequenceLayout& layout,
                 const TensorRegion& region) {
  const at::Tensor ids = tokens.contiguous().view({-1});  // [b s]
  check_tokens(ids, w.vocabulary.total);
  at::Tensor x = look_up(ids, w);  // [b s, h]
  const bool adds_positions = region.rank() == 0 || region.plant() == Plant::kPositionRows;
  if (w.positions.defined() && adds_positions) {
    std::int64_t row = 0;
    for (const TokenRun& run : layout.runs) {
      const at::Tensor positions = w.positions.weight.narrow(0, run.first, run.count);      // [run, h]
      x.view({layout.batch, layout.length, -1}).narrow(1, row, run.count).add_(positions);  // [b, run, h]
      row += run.count;
    }
  }
  return region.summed(x);  // [b s, h]
}

void embed_backward(const at::Tensor& tokens,
                    const at::Tensor& dx,
                    const EmbeddingWeights& w,
                    const SequenceLayout& layout,
                    const TensorRegion& region) {
  const std::int64_t h = dx.size(1);
  const at::Tensor ids_tensor = tokens.contiguous();
  const std::int64_t* ids = ids_tensor.data_ptr<std::int64_t>();
  const at::Tensor grads = region.whole(dx.contiguous());  // [b s, h]
  dispatch_rows(grads, [&]<class T>(T) {
    const auto& kernels = row_kernels<T>();
    auto* table = pointer<Acc<T>>(w.tokens.grad);
    // One thread, rows in order: two tokens of a batch often share a row, and the sum must not depend on
    // who comes first.
    for (std::int64_t row = 0; row < grads.size(0); ++row)
      if (const std::int64_t own = w.vocabulary.own_row(ids[row]); own >= 0)
        kernels.add_rows(pointer<T>(grads) + row * h, table + own * h, 1, h, h);
    if (!w.positions.defined()) return;
    for_rows(layout.length, h, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        kernels.add_rows(pointer<T>(grads) + row * h,
                         pointer<Acc<T>>(w.positions.grad) + layout.position_of(row) * h,
                         layout.batch,
                         h,
                         layout.length * h);
    });
  });
}

}  // namespace llmtrain
