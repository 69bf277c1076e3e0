#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/mapped_file.hpp"
#include "llmtrain/data/token_source.hpp"

// Reader of Megatron's indexed datasets: PREFIX.idx (header, lengths, offsets, documents) and
// PREFIX.bin (token ids back to back, no header). docs/DATA.md describes the bytes.
//
// Opening checks magic, version, type, the size equation, every length, offset and document border,
// and that the .bin holds exactly what the .idx states. Both files are mapped, so memory is bounded.
namespace llmtrain {

// The codes of the file format; frozen. Only integer types can hold tokens.
enum class TokenType : std::uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 8
};

int bytes_of(TokenType type);
std::string to_string(TokenType type);

struct DatasetPaths {
  std::string prefix;  // without extension
  std::string idx() const { return prefix + ".idx"; }
  std::string bin() const { return prefix + ".bin"; }
};

// A prefix, either file of the pair, or a directory that holds exactly one pair.
Result<DatasetPaths> find_dataset(const std::string& path);

// Borders are checked everywhere, or (kQuick) everywhere up to 16 million sequences and in runs spread
// over the file beyond that, so that a worker starts in a second on an index of any size.
enum class IndexCheck { kQuick, kFull };

class IndexedDataset final : public TokenSource {
 public:
  static Result<IndexedDataset> open(const std::string& path, IndexCheck check = IndexCheck::kQuick);

  const std::string& name() const override { return paths_.prefix; }
  std::int64_t num_tokens() const override { return num_tokens_; }
  std::int64_t num_documents() const override { return num_documents_; }
  std::int64_t document_begin(std::int64_t document) const override;
  Status read(std::int64_t offset, std::span<std::int32_t> out) const override;
  std::uint64_t fingerprint() const override;

  const DatasetPaths& paths() const { return paths_; }
  TokenType type() const { return type_; }
  std::int64_t num_sequences() const { return num_sequences_; }
  std::int32_t sequence_length(std::int64_t sequence) const;
  std::int64_t sequence_begin(std::int64_t sequence) const;
  bool has_modes() const { return has_modes_; }  // multimodal files carry one more byte a sequence

 private:
  Status read_header();
  Status check_size_equation();
  Status check_borders(IndexCheck check) const;
  Status check_sequences(std::int64_t begin, std::int64_t end) const;
  Status check_documents(std::int64_t begin, std::int64_t end) const;
  std::int64_t document_entry(std::int64_t index) const;

  DatasetPaths paths_;
  MappedFile idx_;
  MappedFile bin_;
  TokenType type_ = TokenType::kInt32;
  std::int64_t num_sequences_ = 0;
  std::int64_t num_documents_ = 0;
  std::int64_t num_tokens_ = 0;
  bool has_modes_ = false;
};

}  // namespace llmtrain
