#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/checkpoint/tensor_piece.hpp"
#include "llmtrain/core/result.hpp"

// What a rank reports about a file it wrote: name, size, a checksum per block, and the pieces inside.
//
// The committer puts the records of all ranks into the manifest; a reader trusts nothing else.
namespace llmtrain {

// Bytes covered by one checksum: small enough to say where damage lies and to read boxes without waste,
// large enough that the checksums of 10 TB stay below 100 MB.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;

struct PieceRecord {
  std::string name;  // of the global tensor
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;  // global
  Box box;
  friend bool operator==(const PieceRecord&, const PieceRecord&) = default;
};

struct FileRecord {
  std::string name;  // bare
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;                 // of the whole file
  std::vector<std::uint32_t> block_crc32c;  // one per kBlockBytes, the last one shorter
  std::vector<PieceRecord> pieces;          // empty for files that are not safetensors
  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

// JSON for the control channel: what a rank sends to the committer, and back.
std::string encode_file_records(std::span<const FileRecord> records);
Result<std::vector<FileRecord>> decode_file_records(std::string_view text, const std::string& origin);

// The checksum of the whole file from those of its blocks.
std::uint32_t combine_blocks(std::span<const std::uint32_t> blocks, std::uint64_t bytes);

}  // namespace llmtrain
