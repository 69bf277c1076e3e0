#pragma once

#include "llmtrain/model/sequence_attention.hpp"

// What of a block of queries meets what of a block of keys: calls of attention() that need no mask but the
// causal one.
//
// A document that ends inside a sequence is not masked out but left out: each document is a piece of its own,
// so that work falls with the length of documents and no matrix of scores is ever built.
namespace llmtrain {

struct AttentionPiece {
  TokenRun sequences{};  // of the batch
  TokenRun queries{};    // rows of the block of queries
  TokenRun keys{};       // rows of the block of keys
  bool causal = false;

  // x [b, n, rows, ...]
  at::Tensor of_queries(const at::Tensor& x) const {
    return x.narrow(0, sequences.first, sequences.count).narrow(2, queries.first, queries.count);
  }
  at::Tensor of_keys(const at::Tensor& x) const {
    return x.narrow(0, sequences.first, sequences.count).narrow(2, keys.first, keys.count);
  }
  AttentionResult of(const AttentionResult& whole) const {
    return {.out = of_queries(whole.out), .lse = of_queries(whole.lse)};
  }
};

// `queries` and `keys`: where the rows of the two blocks stand in the whole sequence. Two runs are the same
// or do not overlap.
std::vector<AttentionPiece> pieces_of(const std::vector<TokenRun>& queries,
                                      const std::vector<TokenRun>& keys,
                                      const Documents& documents);

// Attention to no keys at all, in the accumulation type: what merge_attention() starts from. q [b, n, s, d]
AttentionResult attended_to_nothing(const at::Tensor& q);
// Merges what a block of keys adds into `whole`.
void attend_pieces(const AttentionResult& whole,
                   const at::Tensor& q,
                   const at::Tensor& k,
                   const at::Tensor& v,
                   const std::vector<AttentionPiece>& pieces,
                   double scale);
// The share of a block of keys in the gradients, in the accumulation type.
AttentionGradients pieces_backward(const at::Tensor& d_out,
                                   const at::Tensor& q,
                                   const at::Tensor& k,
                                   const at::Tensor& v,
                                   const AttentionResult& whole,
                                   const std::vector<AttentionPiece>& pieces,
                                   double scale);

// Causal attention of one rank that has whole sequences, or every token of some heads of them.
Attended attend_whole(const QueryKeyValue& whole, double scale, const Documents& documents);

}  // namespace llmtrain
