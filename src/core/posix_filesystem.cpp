#include <algorithm>
#include <cerrno>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/unique_fd.hpp"

namespace llmtrain {
namespace {

const char* hint_for(int error) {
  switch (error) {
    case ENOSPC: return "free space there, or move run.dir to a larger file system";
    case EDQUOT: return "the quota is used up: free space, or move run.dir";
    case EFBIG: return "raise the file-size limit (ulimit -f)";
    case EROFS: return "the file system is mounted read-only: choose another directory";
    case EACCES:
    case EPERM: return "check owner and permissions of the path";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    default: return "";
  }
}

Error failure(ErrorCode code, const std::string& what, int error) {
  if (error == ENOENT) code = ErrorCode::kNotFound;
  const char* name = ::strerrorname_np(error);
  return {code,
          fmt::format("cannot {}: {} ({})", what, ::strerrordesc_np(error), name ? name : "?"),
          hint_for(error)};
}

// The file-size limit must be an error of this write, not a signal that ends the process: SIGXFSZ goes to
// the thread that writes, so it is held back there and taken off again. Dispositions stay as they are.
class HoldFileSizeSignal {
 public:
  HoldFileSizeSignal() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HoldFileSizeSignal() {
    if (sigismember(&before_, SIGXFSZ) == 0) {
      const timespec now{};
      while (::sigtimedwait(&held_, nullptr, &now) > 0) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  HoldFileSizeSignal(const HoldFileSizeSignal&) = delete;
  HoldFileSizeSignal& operator=(const HoldFileSizeSignal&) = delete;

 private:
  sigset_t held_{};
  sigset_t before_{};
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Status append(std::span<const std::byte> bytes) override {
    const HoldFileSizeSignal hold;
    while (!bytes.empty()) {
      const ssize_t done = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kLargestCall));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) {
        const int error = done < 0 ? errno : ENOSPC;
        return failure(ErrorCode::kStorage,
                       fmt::format("write {} bytes at offset {} of {}", bytes.size(), offset_, path_),
                       error);
      }
      offset_ += static_cast<std::uint64_t>(done);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return ok_status();
  }

  Status sync() override {
    if (::fdatasync(fd_.get()) != 0)
      return failure(ErrorCode::kStorage, fmt::format("flush {} to disk", path_), errno);
    return ok_status();
  }

  Status close() override {
    // After EINTR Linux has released the descriptor: a second close could hit somebody else's file.
    if (::close(fd_.release()) != 0 && errno != EINTR)
      return failure(ErrorCode::kStorage, fmt::format("close {}", path_), errno);
    return ok_status();
  }

 private:
  static constexpr std::size_t kLargestCall = std::size_t{1} << 30;
  std::string path_;
  UniqueFd fd_;
  std::uint64_t offset_ = 0;  // of what was appended through this object
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) override {
    std::size_t total = 0;
    while (total < out.size()) {
      const std::size_t want = std::min<std::size_t>(out.size() - total, std::size_t{1} << 30);
      const ssize_t done = ::pread(fd_.get(), out.data() + total, want, static_cast<off_t>(offset + total));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0)
        return failure(ErrorCode::kIo,
                       fmt::format("read {} bytes at offset {} of {}", out.size(), offset, path_),
                       errno);
      if (done == 0) break;
      total += static_cast<std::size_t>(done);
    }
    return total;
  }

  Result<std::uint64_t> size() override {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) return failure(ErrorCode::kIo, "stat " + path_, errno);
    if (!S_ISREG(status.st_mode)) return Error{ErrorCode::kIo, path_ + " is not a regular file", ""};
    return static_cast<std::uint64_t>(status.st_size);
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

FileKind kind_of(mode_t mode) {
  return S_ISREG(mode) ? FileKind::kFile : S_ISDIR(mode) ? FileKind::kDirectory : FileKind::kOther;
}

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return open_for_writing(path, O_TRUNC);
  }
  Result<std::unique_ptr<WritableFile>> append(const std::string& path) override {
    return open_for_writing(path, O_APPEND);
  }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return failure(ErrorCode::kIo, "open " + path, errno);
    return std::unique_ptr<ReadableFile>(std::make_unique<PosixReadableFile>(path, std::move(fd)));
  }

  Result<bool> make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return true;
    const int error = errno;
    struct stat status {};
    if (error == EEXIST && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return false;
    return failure(ErrorCode::kStorage, "make directory " + path, error);
  }

  Status sync_directory(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return failure(ErrorCode::kStorage, "open directory " + path, errno);
    // EINVAL: this file system has no such call, and keeps its directories by other means.
    if (::fsync(fd.get()) != 0 && errno != EINVAL)
      return failure(ErrorCode::kStorage, "flush directory " + path, errno);
    return ok_status();
  }

  Result<bool> rename_without_replacing(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
    if (errno == EEXIST) return false;
    if (errno != EINVAL && errno != ENOSYS) return rename_failure(from, to, errno);
    return rename_portably(from, to);
  }

  Status replace(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return rename_failure(from, to, errno);
    return ok_status();
  }

  Status remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return failure(ErrorCode::kStorage, "remove " + path, errno);
    return ok_status();
  }
  Status remove_directory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) return failure(ErrorCode::kStorage, "remove directory " + path, errno);
    return ok_status();
  }

  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    struct Close {
      void operator()(DIR* directory) const { ::closedir(directory); }
    };
    const std::unique_ptr<DIR, Close> directory(::opendir(path.c_str()));
    if (!directory) return failure(ErrorCode::kIo, "list " + path, errno);
    std::vector<DirectoryEntry> entries;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat status {};
      if (::fstatat(::dirfd(directory.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        entries.push_back({name, kind_of(status.st_mode)});
      errno = 0;
    }
    if (errno != 0) return failure(ErrorCode::kIo, "list " + path, errno);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }

  Result<std::optional<FileInfo>> info(const std::string& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0)
      return std::optional(FileInfo{kind_of(status.st_mode), static_cast<std::uint64_t>(status.st_size)});
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<FileInfo>();
    return failure(ErrorCode::kIo, "stat " + path, errno);
  }

  Result<std::uint64_t> free_space(const std::string& path) override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0)
      return failure(ErrorCode::kIo, "ask for the free space of " + path, errno);
    return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  }

 private:
  static Result<std::unique_ptr<WritableFile>> open_for_writing(const std::string& path, int flag) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flag, 0666));
    if (!fd.valid()) return failure(ErrorCode::kStorage, "open " + path + " for writing", errno);
    return std::unique_ptr<WritableFile>(std::make_unique<PosixWritableFile>(path, std::move(fd)));
  }

  static Error rename_failure(const std::string& from, const std::string& to, int error) {
    return failure(ErrorCode::kStorage, fmt::format("rename {} to {}", from, to), error);
  }

  // For file systems without RENAME_NOREPLACE (some network ones). A plain rename of a directory never
  // replaces one that holds anything, and a hard link never replaces a file.
  static Result<bool> rename_portably(const std::string& from, const std::string& to) {
    struct stat status {};
    if (::lstat(from.c_str(), &status) != 0) return rename_failure(from, to, errno);
    if (S_ISDIR(status.st_mode)) {
      if (::lstat(to.c_str(), &status) == 0) return false;
      if (::rename(from.c_str(), to.c_str()) == 0) return true;
      if (errno == ENOTEMPTY || errno == EEXIST) return false;
      return rename_failure(from, to, errno);
    }
    if (::link(from.c_str(), to.c_str()) != 0) {
      if (errno == EEXIST) return false;
      return rename_failure(from, to, errno);
    }
    if (::unlink(from.c_str()) != 0) return rename_failure(from, to, errno);
    return true;
  }
};

}  // namespace

std::unique_ptr<FileSystem> make_posix_filesystem() {
  return std::make_unique<PosixFileSystem>();
}

}  // namespace llmtrain
