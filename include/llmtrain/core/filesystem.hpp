#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"

// Files and directories as the storage layers see them: the seam where tests inject failures and crashes.
//
// What was written is durable only after sync() of the file and sync_directory() of every directory whose
// entries changed; nothing here syncs by itself. Every error names the path and, for writes, the bytes that
// were wanted. A FileSystem may be used by several threads; one open file by one thread at a time.
namespace llmtrain {

enum class FileKind { kFile, kDirectory, kOther };

struct FileInfo {
  FileKind kind = FileKind::kFile;
  std::uint64_t bytes = 0;
};

struct DirectoryEntry {
  std::string name;
  FileKind kind = FileKind::kFile;  // of the entry itself: a symbolic link is kOther
};

class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;  // all of them, or an error
  virtual Status sync() = 0;                                    // data and size reach the disk
  virtual Status close() = 0;  // some file systems report write errors only here
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Fills `out`; fewer bytes are returned only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) = 0;
  virtual Result<std::uint64_t> size() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<WritableFile>> create(
      const std::string& path) = 0;  // an old file is emptied
  virtual Result<std::unique_ptr<WritableFile>> append(const std::string& path) = 0;  // made when missing
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;

  virtual Result<bool> make_directory(const std::string& path) = 0;  // false: it was there already
  virtual Status sync_directory(const std::string& path) = 0;
  // False, and nothing is changed, when `to` exists.
  virtual Result<bool> rename_without_replacing(const std::string& from, const std::string& to) = 0;
  virtual Status replace(const std::string& from, const std::string& to) = 0;  // rename(2) of a file
  virtual Status remove_file(const std::string& path) = 0;
  virtual Status remove_directory(const std::string& path) = 0;  // must be empty

  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path) = 0;  // sorted by name
  virtual Result<std::optional<FileInfo>> info(const std::string& path) = 0;      // absent: no such path
  virtual Result<std::uint64_t> free_space(const std::string& path) = 0;          // bytes for this user
};

// The operating system's files. Stateless.
std::unique_ptr<FileSystem> make_posix_filesystem();

}  // namespace llmtrain
