#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"

// One long stream of token ids with document boundaries; readable at any offset.
//
// Offsets, counts and document numbers are 64-bit. Reading is const and safe from several threads.
// What a token means, and whether it fits a model, is not known here (see sample_set.hpp).
namespace llmtrain {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // For messages: the path, or `synthetic`.
  virtual const std::string& name() const = 0;
  virtual std::int64_t num_tokens() const = 0;
  virtual std::int64_t num_documents() const = 0;
  // First token of a document; document_begin(num_documents()) is num_tokens().
  virtual std::int64_t document_begin(std::int64_t document) const = 0;
  // Fills `out` with the tokens from `offset` on; [offset, offset + out.size()) must be inside.
  virtual Status read(std::int64_t offset, std::span<std::int32_t> out) const = 0;
  // Equal for equal contents: sizes and a sampled hash. Nodes compare it; it is no security hash.
  virtual std::uint64_t fingerprint() const = 0;
};

// The document that holds the token at `offset`.
std::int64_t document_at(const TokenSource& source, std::int64_t offset);

// Which of the `count` tokens from `offset` on are the first of a document, counted from `offset`, ascending;
// the first token is one in any case.
std::vector<std::int64_t> document_begins(const TokenSource& source, std::int64_t offset, std::int64_t count);

// Where to cut off the last `fraction` of a stream: the document boundary nearest to that share, or,
// when no boundary keeps between half and double of the share (one huge document), a token inside
// the document. 0 < fraction < 1.
std::int64_t split_point(const TokenSource& source, double fraction);

// What `path: synthetic` needs to know; token files ignore it.
struct SyntheticOptions {
  std::uint64_t seed = 1234;
  std::int64_t vocab_size = 0;
  bool valid = false;  // the held-out stream
};

// Opens a token file pair (prefix, either file, or a directory with exactly one pair) or `synthetic`.
Result<std::shared_ptr<const TokenSource>> open_token_source(const std::string& path,
                                                             const SyntheticOptions& synthetic);

}  // namespace llmtrain
