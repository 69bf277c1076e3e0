#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/file_record.hpp"
#include "llmtrain/core/filesystem.hpp"

// A file under construction that keeps the checksums of its blocks. Small pieces are collected into blocks,
// large ones go to the file as they are.
namespace llmtrain {

class ChecksummedFile {
 public:
  static Result<ChecksummedFile> create(FileSystem& files,
                                        const std::string& directory,
                                        const std::string& name);

  Status append(std::span<const std::byte> bytes);
  // Flushes to disk and closes. The record has no pieces yet.
  Result<FileRecord> finish();

 private:
  ChecksummedFile(std::unique_ptr<WritableFile> file, std::string name);
  Status write_out(std::span<const std::byte> bytes);
  void add_to_blocks(std::span<const std::byte> bytes);

  std::unique_ptr<WritableFile> file_;
  FileRecord record_;
  std::vector<std::byte> pending_;  // less than one block
};

}  // namespace llmtrain
