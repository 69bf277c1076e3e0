#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "llmtrain/core/filesystem.hpp"

namespace llmtrain::test {

// Files in memory that forget what was not synced: the fake behind crash tests.
//
// Every file and directory has a current and a durable state; sync() and sync_directory() copy the one to the
// other. Operations that change something are counted, and the n-th can be made to fail; a failing write
// leaves half of its bytes behind. Not thread-safe.
class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  // Changing operations so far: create, append, sync, mkdir, sync of a directory, rename, remove.
  std::int64_t num_operations() const { return num_operations_; }
  // Operation number `n` (from 0) fails; the later ones as well when `dead_afterwards` (the process died
  // there).
  void fail_at(std::int64_t n, bool dead_afterwards);
  void heal() { fail_at(-1, false); }

  // Power goes: only what is durable is left.
  void drop_unsynced();
  // Power goes, but the disk had written some of it by itself: each directory and each 16 bytes of a file
  // are, by the seed, as they were or as they are.
  void drop_some(std::uint64_t seed);

  // Test access to the current bytes of a file.
  std::string& contents(const std::string& path);
  void set_free_space(std::uint64_t bytes) { free_space_ = bytes; }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> append(const std::string& path) override;
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  Result<bool> make_directory(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<bool> rename_without_replacing(const std::string& from, const std::string& to) override;
  Status replace(const std::string& from, const std::string& to) override;
  Status remove_file(const std::string& path) override;
  Status remove_directory(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override;
  Result<std::optional<FileInfo>> info(const std::string& path) override;
  Result<std::uint64_t> free_space(const std::string& path) override;

  struct Node;

 private:
  friend class MemoryWritableFile;
  Status count(const std::string& what);  // the injected failure, when it is due
  std::shared_ptr<Node> find(const std::string& path) const;
  Result<std::shared_ptr<Node>> directory_of(const std::string& path) const;
  Result<std::unique_ptr<WritableFile>> open_for_writing(const std::string& path, bool empty_it);

  std::shared_ptr<Node> root_;
  std::int64_t num_operations_ = 0;
  std::int64_t fail_at_ = -1;
  bool dead_afterwards_ = false;
  std::uint64_t free_space_ = std::uint64_t{1} << 40;
};

}  // namespace llmtrain::test
