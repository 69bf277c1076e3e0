#include "llmtrain/data/mapped_file.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace llmtrain {
namespace {

Error open_error(const std::string& path, const char* action) {
  const int code = errno;
  if (code == ENOENT || code == ENOTDIR) {
    return {ErrorCode::kNotFound, fmt::format("{}: no such file", path), "check the path"};
  }
  return {ErrorCode::kData,
          fmt::format("{}: cannot {}: {}", path, action, std::strerror(code)),
          "check its permissions and the file system"};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  file.fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.fd_.valid()) return open_error(path, "open");
  struct stat info = {};
  if (::fstat(file.fd_.get(), &info) != 0) return open_error(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorCode::kData, fmt::format("{}: is not a regular file", path), "give the path of a file"};
  }
  file.size_ = info.st_size;
  if (file.size_ == 0) return file;
  void* data =
      ::mmap(nullptr, static_cast<std::size_t>(file.size_), PROT_READ, MAP_SHARED, file.fd_.get(), 0);
  if (data == MAP_FAILED) return open_error(path, "map");
  file.data_ = static_cast<const unsigned char*>(data);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), static_cast<std::size_t>(size_));
}

void MappedFile::swap(MappedFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

Status MappedFile::check_size() const {
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0) return open_error(path_, "stat");
  if (info.st_size < size_) {
    return Error{ErrorCode::kData,
                 fmt::format("{}: shrank from {} to {} bytes while in use", path_, size_, info.st_size),
                 "a data file must not change during a run; restore it and resume"};
  }
  return ok_status();
}

void MappedFile::will_need(std::int64_t offset, std::int64_t length) const {
  constexpr std::int64_t kPage = 4096;
  if (length <= kPage) return;  // one or two faults cost less than the call
  const std::int64_t begin = offset / kPage * kPage;
  ::madvise(const_cast<unsigned char*>(data_ + begin),
            static_cast<std::size_t>(offset + length - begin),
            MADV_WILLNEED);
}

}  // namespace llmtrain
