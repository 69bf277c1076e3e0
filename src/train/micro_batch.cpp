#include "llmtrain/train/micro_batch.hpp"

#include <ATen/ops/empty.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

MicroBatch to_micro_batch(const TokenBatch& batch, std::int64_t seq_length) {
  const std::int64_t rows = batch.rows;
  LLMTRAIN_CHECK(static_cast<std::int64_t>(batch.tokens.size()) == rows * (seq_length + 1),
                 "{} tokens for {} rows of {} + 1",
                 batch.tokens.size(),
                 rows,
                 seq_length);
  MicroBatch out{.tokens = at::empty({rows, seq_length}, at::kLong),   // [b, s]
                 .labels = at::empty({rows, seq_length}, at::kLong)};  // [b, s]
  auto* tokens = out.tokens.mutable_data_ptr<std::int64_t>();
  auto* labels = out.labels.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t* ids = batch.tokens.data() + row * (seq_length + 1);
    for (std::int64_t i = 0; i < seq_length; ++i) {
      *tokens++ = ids[i];
      *labels++ = ids[i + 1];
    }
  }
  return out;
}

}  // namespace llmtrain
