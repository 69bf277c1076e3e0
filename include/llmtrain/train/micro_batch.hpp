#pragma once

#include "llmtrain/data/batch.hpp"
#include "llmtrain/model/model_chunk.hpp"
#include "llmtrain/placement/sequence_cut.hpp"

// Token ids from the data plane as tensors for the model.
namespace llmtrain {

// Rows of S+1 tokens become inputs [rows, s] and the labels that follow them [rows, s], where s of the S
// tokens are this rank's. Labels are taken before the cut: the last token of a part has one too. Attention
// stays inside the documents of a batch that tells them.
MicroBatch to_micro_batch(const TokenBatch& batch, const SequenceCut& cut);

}  // namespace llmtrain
