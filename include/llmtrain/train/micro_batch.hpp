#pragma once

#include "llmtrain/data/batch.hpp"
#include "llmtrain/model/transformer.hpp"

// Token ids from the data plane as tensors for the model.
namespace llmtrain {

// Rows of S+1 tokens become inputs [rows, S] and the labels that follow them [rows, S].
MicroBatch to_micro_batch(const TokenBatch& batch, std::int64_t seq_length);

}  // namespace llmtrain
