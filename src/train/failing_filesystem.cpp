#include "llmtrain/train/failing_filesystem.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace llmtrain {
namespace {

struct Countdown {
  int left = 0;
  int error = 0;
};

class FailingFile final : public WritableFile {
 public:
  FailingFile(std::unique_ptr<WritableFile> inner, std::string path, std::shared_ptr<Countdown> countdown)
      : inner_(std::move(inner)), path_(std::move(path)), countdown_(std::move(countdown)) {}
  Status append(std::span<const std::byte> bytes) override {
    if (--countdown_->left != 0) return inner_->append(bytes);
    return Error{
        ErrorCode::kStorage,
        fmt::format("cannot write {} bytes to {}: {}", bytes.size(), path_, std::strerror(countdown_->error)),
        "a fault hook of the job spec asked for this"};
  }
  Status sync() override { return inner_->sync(); }
  Status close() override { return inner_->close(); }

 private:
  std::unique_ptr<WritableFile> inner_;
  std::string path_;
  std::shared_ptr<Countdown> countdown_;
};

class FailingFileSystem final : public FileSystem {
 public:
  FailingFileSystem(std::unique_ptr<FileSystem> inner, int nth, int error)
      : inner_(std::move(inner)), countdown_(std::make_shared<Countdown>(Countdown{nth, error})) {}

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LLMTRAIN_ASSIGN(file, inner_->create(path));
    return wrap(std::move(file), path);
  }
  Result<std::unique_ptr<WritableFile>> append(const std::string& path) override {
    LLMTRAIN_ASSIGN(file, inner_->append(path));
    return wrap(std::move(file), path);
  }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override { return inner_->open(path); }
  Result<bool> make_directory(const std::string& path) override { return inner_->make_directory(path); }
  Status sync_directory(const std::string& path) override { return inner_->sync_directory(path); }
  Result<bool> rename_without_replacing(const std::string& from, const std::string& to) override {
    return inner_->rename_without_replacing(from, to);
  }
  Status replace(const std::string& from, const std::string& to) override {
    return inner_->replace(from, to);
  }
  Status remove_file(const std::string& path) override { return inner_->remove_file(path); }
  Status remove_directory(const std::string& path) override { return inner_->remove_directory(path); }
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override { return inner_->list(path); }
  Result<std::optional<FileInfo>> info(const std::string& path) override { return inner_->info(path); }
  Result<std::uint64_t> free_space(const std::string& path) override { return inner_->free_space(path); }

 private:
  std::unique_ptr<WritableFile> wrap(std::unique_ptr<WritableFile> file, const std::string& path) const {
    return std::make_unique<FailingFile>(std::move(file), path, countdown_);
  }

  std::unique_ptr<FileSystem> inner_;
  std::shared_ptr<Countdown> countdown_;  // of all its files
};

}  // namespace

std::unique_ptr<FileSystem> make_failing_filesystem(std::unique_ptr<FileSystem> inner, int nth, int error) {
  return std::make_unique<FailingFileSystem>(std::move(inner), nth, error);
}

}  // namespace llmtrain
