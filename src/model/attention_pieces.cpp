#include "attention_pieces.hpp"

#include <algorithm>
#include <limits>

#include <ATen/ops/full.h>

// Shapes: b sequences, n query heads, k key/value heads, s queries, u keys, d head width.
namespace llmtrain {
namespace {

// Rows [first, end) of a block, and the positions that they stand for.
struct RowRun {
  std::int64_t row = 0;
  TokenRun positions{};
};

std::vector<RowRun> rows_of(const std::vector<TokenRun>& runs) {
  std::vector<RowRun> rows;
  std::int64_t row = 0;
  for (const TokenRun& run : runs) {
    rows.push_back({.row = row, .positions = run});
    row += run.count;
  }
  return rows;
}

// Rows whose positions lie in [begin, end); perhaps none.
TokenRun rows_inside(const RowRun& run, std::int64_t begin, std::int64_t end) {
  const std::int64_t first = std::max(run.positions.first, begin);
  const std::int64_t last = std::min(run.positions.first + run.positions.count, end);
  return {.first = run.row + first - run.positions.first, .count = std::max<std::int64_t>(0, last - first)};
}

at::Tensor zero_rows(const at::Tensor& like) {
  return zeros_host({like.size(0), like.size(2), like.size(1), like.size(3)},
                    accumulation_type(dtype_of(like.scalar_type())))
      .transpose(1, 2);  // [b, n, s, d]
}

Attended attend_documents(const QueryKeyValue& whole, double scale, const Documents& documents) {
  const std::vector<TokenRun> all = {{.first = 0, .count = whole.q.size(2)}};
  const std::vector<AttentionPiece> pieces = pieces_of(all, all, documents);
  AttentionResult result = attended_to_nothing(whole.q);
  attend_pieces(result, whole.q, whole.k, whole.v, pieces, scale);
  result.out = result.out.to(whole.q.scalar_type());  // [b, n, s, d]
  return {.out = result.out, .backward = [whole, result, pieces, scale](const at::Tensor& d_out) {
            return pieces_backward(d_out, whole.q, whole.k, whole.v, result, pieces, scale);
          }};
}

}  // namespace

std::vector<AttentionPiece> pieces_of(const std::vector<TokenRun>& queries,
                                      const std::vector<TokenRun>& keys,
                                      const Documents& documents) {
  std::vector<AttentionPiece> pieces;
  for (std::size_t sequence = 0; sequence < documents.begins.size(); ++sequence) {
    const std::vector<std::int64_t>& begins = documents.begins[sequence];
    for (std::size_t d = 0; d < begins.size(); ++d) {
      const std::int64_t end =
          d + 1 < begins.size() ? begins[d + 1] : std::numeric_limits<std::int64_t>::max();
      for (const RowRun& query : rows_of(queries))
        for (const RowRun& key : rows_of(keys)) {
          if (key.positions.first > query.positions.first) continue;
          const AttentionPiece piece{.sequences = {.first = static_cast<std::int64_t>(sequence), .count = 1},
                                     .queries = rows_inside(query, begins[d], end),
                                     .keys = rows_inside(key, begins[d], end),
                                     .causal = key.positions.first == query.positions.first};
          if (piece.queries.count > 0 && piece.keys.count > 0) pieces.push_back(piece);
        }
    }
  }
  return pieces;
}

AttentionResult attended_to_nothing(const at::Tensor& q) {
  at::Tensor out = zero_rows(q);  // [b, n, s, d]
  const at::Tensor lse = at::full({q.size(0), q.size(1), q.size(2)},
                                  -std::numeric_limits<double>::infinity(),
                                  out.options());  // [b, n, s]
  return {.out = out, .lse = lse};
}

void attend_pieces(const AttentionResult& whole,
                   const at::Tensor& q,
                   const at::Tensor& k,
                   const at::Tensor& v,
                   const std::vector<AttentionPiece>& pieces,
                   double scale) {
  for (const AttentionPiece& piece : pieces)
    merge_attention(piece.of(whole),
                    attention(piece.of_queries(q), piece.of_keys(k), piece.of_keys(v), piece.causal, scale));
}

AttentionGradients pieces_backward(const at::Tensor& d_out,
                                   const at::Tensor& q,
                                   const at::Tensor& k,
                                   const at::Tensor& v,
                                   const AttentionResult& whole,
                                   const std::vector<AttentionPiece>& pieces,
                                   double scale) {
  const AttentionGradients sums{.dq = zero_rows(q), .dk = zero_rows(k), .dv = zero_rows(v)};
  for (const AttentionPiece& piece : pieces) {
    const AttentionGradients part = attention_backward(piece.of_queries(d_out),
                                                       piece.of_queries(q),
                                                       piece.of_keys(k),
                                                       piece.of_keys(v),
                                                       piece.of(whole),
                                                       piece.causal,
                                                       scale);
    piece.of_queries(sums.dq).add_(part.dq);
    piece.of_keys(sums.dk).add_(part.dk);
    piece.of_keys(sums.dv).add_(part.dv);
  }
  return sums;
}

Attended attend_whole(const QueryKeyValue& whole, double scale, const Documents& documents) {
  if (documents.mask()) return attend_documents(whole, scale, documents);
  const AttentionResult result = attention(whole.q, whole.k, whole.v, true, scale);
  return {.out = result.out, .backward = [whole, result, scale](const at::Tensor& d_out) {
            return attention_backward(d_out, whole.q, whole.k, whole.v, result, true, scale);
          }};
}

}  // namespace llmtrain
