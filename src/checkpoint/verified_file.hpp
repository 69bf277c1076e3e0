#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/file_record.hpp"
#include "llmtrain/core/filesystem.hpp"

// A file of a checkpoint whose blocks are checked before their bytes are used. Keeps one block, so that
// neighbouring small reads touch the disk once.
namespace llmtrain {

// The damage of one block, in words that name the byte when one byte explains it.
struct BlockDamage {
  std::uint64_t begin = 0;  // byte range of the file
  std::uint64_t end = 0;
  std::string what;
};

class VerifiedFile {
 public:
  // Fails when the size is not the recorded one. `record` must outlive the object.
  static Result<VerifiedFile> open(FileSystem& files, const std::string& directory, const FileRecord& record);

  Status read(std::uint64_t offset, std::span<std::byte> out);

  // Checks block `index` and keeps it; the damage, if any. An Error only when the system refuses to read.
  Result<std::optional<BlockDamage>> check_block(std::size_t index);

  const std::string& path() const { return path_; }

 private:
  VerifiedFile(std::unique_ptr<ReadableFile> file, std::string path, const FileRecord& record);
  std::uint64_t block_bytes(std::size_t index) const;
  Result<std::optional<BlockDamage>> read_block(std::size_t index, std::span<std::byte> out);
  Status keep_block(std::size_t index);
  Error damage_error(const BlockDamage& damage) const;

  std::unique_ptr<ReadableFile> file_;
  std::string path_;
  const FileRecord* record_;
  std::optional<std::size_t> kept_;  // index of the block in block_
  std::vector<std::byte> block_;
};

}  // namespace llmtrain
