#include "llmtrain/control/token.hpp"

#include <cerrno>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/control/handshake.hpp"
#include "llmtrain/core/hex.hpp"
#include "llmtrain/core/unique_fd.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kLongestToken = 1024;
constexpr std::size_t kShortestToken = 8;

Error token_error(const std::string& path, const char* what, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage;
  return {code, fmt::format("cannot {} the token file {}: {}", what, path, ::strerrordesc_np(error)), ""};
}

}  // namespace

Result<std::string> read_token(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return token_error(path, "open", errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return token_error(path, "stat", errno);
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::kUsage, path + " is no regular file", "name a token file"};
  if ((status.st_mode & 077) != 0)
    return Error{
        ErrorCode::kPreflight,
        fmt::format(
            "the token file {} has mode {:04o}: others could join this run", path, status.st_mode & 0777),
        "chmod 600 it, and make a new token if somebody may have read it"};
  std::string text(kLongestToken + 1, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n < 0) return token_error(path, "read", errno);
  text.resize(static_cast<std::size_t>(n));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.size() < kShortestToken || text.size() > kLongestToken)
    return Error{
        ErrorCode::kPreflight,
        fmt::format(
            "the token file {} holds {} bytes; {} to {} are allowed", path, n, kShortestToken, kLongestToken),
        "remove it, and a new one is made"};
  return text;
}

Result<std::string> make_or_read_token(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) return read_token(path);
  const std::string token = to_hex(random_bytes(32));
  // Written under a name of its own and linked: nobody ever reads half of it.
  const std::string written = fmt::format("{}.{}", path, token.substr(0, 16));
  {
    const UniqueFd fd(::open(written.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd.valid()) return token_error(path, "make", errno);
    const std::string line = token + "\n";
    const bool whole = ::write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       ::fsync(fd.get()) == 0;
    const int error = errno;
    if (!whole) {
      ::unlink(written.c_str());
      return token_error(path, "write", error);
    }
  }
  const int linked = ::link(written.c_str(), path.c_str());
  const int error = errno;
  ::unlink(written.c_str());
  if (linked != 0 && error != EEXIST) return token_error(path, "make", error);
  return read_token(path);
}

}  // namespace llmtrain
