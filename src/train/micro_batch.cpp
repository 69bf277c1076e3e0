#include "llmtrain/train/micro_batch.hpp"

#include <ATen/ops/empty.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

MicroBatch to_micro_batch(const TokenBatch& batch, const SequenceCut& cut) {
  const std::int64_t rows = batch.rows;
  LLMTRAIN_CHECK(static_cast<std::int64_t>(batch.tokens.size()) == rows * (cut.length + 1),
                 "{} tokens for {} rows of {} + 1",
                 batch.tokens.size(),
                 rows,
                 cut.length);
  const std::vector<TokenRun> runs = cut.runs();
  MicroBatch out{.tokens = at::empty({rows, cut.own_length()}, at::kLong),   // [b, s]
                 .labels = at::empty({rows, cut.own_length()}, at::kLong)};  // [b, s]
  auto* tokens = out.tokens.mutable_data_ptr<std::int64_t>();
  auto* labels = out.labels.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t* const ids = batch.tokens.data() + row * (cut.length + 1);
    for (const TokenRun& run : runs)
      for (std::int64_t i = run.first; i < run.first + run.count; ++i) {
        *tokens++ = ids[i];
        *labels++ = ids[i + 1];
      }
  }
  out.documents.begins = batch.document_begins;
  return out;
}

}  // namespace llmtrain
