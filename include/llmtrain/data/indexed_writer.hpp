#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/data/indexed_dataset.hpp"

// Writes one indexed dataset, document by document, in bounded memory.
//
// Everything goes to PREFIX.*.tmp; `finish` syncs and renames, .bin first and .idx last, so that a pair
// is there whole or not at all. A writer that is dropped before `finish` removes what it wrote.
namespace llmtrain {

// The narrowest of the two types that Megatron writes: uint16 below 65,500 ids, else int32.
TokenType token_type_for(std::int64_t vocab_size);

// Whether PREFIX.idx or PREFIX.bin is there. A .bin beside an .idx.tmp does not count: its writer died
// between the two renames.
Result<bool> pair_exists(FileSystem& files, const std::string& prefix);

class IndexedWriter {
 public:
  // `files` outlives the writer. Refuses a prefix that has a pair already, unless told to replace it.
  struct Options {
    std::string prefix;
    TokenType type = TokenType::kInt32;
    bool replace = false;
    std::int64_t max_sequence = INT32_MAX;  // longer documents become several sequences of one document
  };
  static Result<IndexedWriter> create(FileSystem& files, Options options);

  IndexedWriter(IndexedWriter&&) noexcept;
  IndexedWriter& operator=(IndexedWriter&&) noexcept;
  ~IndexedWriter();

  // Adds to the open document. An id that the type cannot hold is an error.
  Status append(std::span<const std::int32_t> ids);
  // Closes the open document, which may be empty.
  Status end_document();
  // Commits the pair. An open document is an error of the caller.
  Status finish();

  std::int64_t num_tokens() const;
  std::int64_t num_documents() const;

 private:
  struct State;
  explicit IndexedWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace llmtrain
