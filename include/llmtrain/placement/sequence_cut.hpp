#pragma once

#include <cstdint>
#include <vector>

#include "llmtrain/core/division.hpp"
#include "llmtrain/spec/job_spec.hpp"

// Which tokens of a sequence a rank of an sp group holds: pure arithmetic on positions.
//
// A straight cut gives every rank one of sp equal parts. A balanced one makes 2 sp chunks and gives rank r
// chunks r and 2 sp - 1 - r: an early one that sees few keys and a late one that sees many, so that causal
// attention is the same work on every rank. It knows no tokens and no process.
namespace llmtrain {

// Tokens that follow one another: positions first .. first + count - 1.
struct TokenRun {
  std::int64_t first = 0;
  std::int64_t count = 0;

  friend bool operator==(const TokenRun&, const TokenRun&) = default;
};

struct SequenceCut {
  std::int64_t length = 0;  // of the whole sequence; a multiple of chunks()
  int ranks = 1;
  int rank = 0;
  bool balanced = false;

  // Equal parts that the sequence is made of.
  int chunks() const { return balanced && ranks > 1 ? 2 * ranks : ranks; }
  std::int64_t own_length() const { return exact_div(length, chunks()) * (chunks() / ranks); }
  // What this rank holds, in order of positions.
  std::vector<TokenRun> runs() const;
};

// In ring attention every rank waits for the slowest at each step, so the cut must be balanced. The other
// methods are simpler on a straight one.
constexpr bool is_balanced(SequenceMethod method) {
  return method == SequenceMethod::kRing;
}

// The cut of a job's sequences for one rank of its sp group.
SequenceCut sequence_cut(const ParallelismSpec& parallelism, std::int64_t seq_length, int sp_rank);

}  // namespace llmtrain
