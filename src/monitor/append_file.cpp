#include "llmtrain/monitor/append_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llmtrain {
namespace {

// A torn line longer than this is not ours: it is left alone and the next line starts on a fresh one.
constexpr off_t kMaxTornBytes = 1 << 20;

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool read_all(int fd, std::string& bytes, off_t offset) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

bool is_json_object(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object();
}

}  // namespace

Error AppendFile::failure(const char* what) const {
  return {ErrorCode::kStorage,
          fmt::format("cannot {} `{}`: {}", what, path_, std::strerror(errno)),
          "free some space or make the run directory writable"};
}

Result<AppendFile> AppendFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644));
  const int opened = fd.get();
  AppendFile file(std::move(fd), path);
  if (opened < 0) return file.failure("open");
  struct stat info {};
  if (::fstat(opened, &info) != 0) return file.failure("look at");
  if (!S_ISREG(info.st_mode))
    return Error{ErrorCode::kStorage, fmt::format("`{}` is not a regular file", path), "move it away"};
  LLMTRAIN_TRY(file.mend_end());
  return file;
}

Status AppendFile::mend_end() {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return failure("look at");
  std::string tail(static_cast<std::size_t>(std::min(info.st_size, kMaxTornBytes)), '\0');
  if (!read_all(fd_.get(), tail, info.st_size - static_cast<off_t>(tail.size()))) return failure("read");
  const std::size_t newline = tail.find_last_of('\n');
  const bool known_start = newline != std::string::npos || static_cast<off_t>(tail.size()) == info.st_size;
  const std::string last = newline == std::string::npos ? tail : tail.substr(newline + 1);
  if (!last.empty()) {
    if (!known_start || is_json_object(last)) {
      if (!write_all(fd_.get(), "\n")) return failure("write");
    } else if (::ftruncate(fd_.get(), info.st_size - static_cast<off_t>(last.size())) != 0) {
      return failure("cut a torn line off");
    }
  }
  torn_ = false;
  return ok_status();
}

Status AppendFile::append(std::string_view line) {
  if (torn_) LLMTRAIN_TRY(mend_end());
  std::string bytes(line);
  bytes += '\n';
  if (!write_all(fd_.get(), bytes)) {
    torn_ = true;
    return failure("write");
  }
  return ok_status();
}

}  // namespace llmtrain
