#pragma once

#include <map>
#include <string>

#include "llmtrain/checkpoint/safetensors.hpp"

#include "verified_file.hpp"

// One safetensors file of a checkpoint: its header, checked against the manifest, and its bytes.
namespace llmtrain {

class ShardReader {
 public:
  // Fails when the header does not list exactly the pieces of the record.
  static Result<ShardReader> open(FileSystem& files, const std::string& directory, const FileRecord& record);

  // Bytes of a piece of this file, from `offset` inside the piece.
  Status read(const PieceRecord& piece, std::uint64_t offset, std::span<std::byte> out);

  VerifiedFile& file() { return file_; }

 private:
  explicit ShardReader(VerifiedFile file) : file_(std::move(file)) {}
  Status load_header(const FileRecord& record);

  VerifiedFile file_;
  std::map<const PieceRecord*, std::uint64_t> start_;  // byte offset in the file of every piece
};

}  // namespace llmtrain
