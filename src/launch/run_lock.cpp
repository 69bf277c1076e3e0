#include "llmtrain/launch/run_lock.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace llmtrain {
namespace {

std::string describe_self() {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  return fmt::format(
      "pid {} on {}, started {:%Y-%m-%d %H:%M:%S} UTC\n", getpid(), host, fmt::gmtime(std::time(nullptr)));
}

// One printable line: the file may hold anything.
std::string describe_holder(int fd) {
  char text[256];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  std::string line;
  for (ssize_t i = 0; i < n && text[i] != '\n'; ++i) line += text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
  return line.empty() ? "a launch that has not written its name yet" : line;
}

}  // namespace

Result<RunLock> RunLock::acquire(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644));
  if (!fd.valid())
    return Error{ErrorCode::kStorage,
                 fmt::format("cannot open the lock of the run directory {}: {}", path, std::strerror(errno)),
                 "make the run directory writable, or choose another run.dir"};
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK)
      return Error{ErrorCode::kStorage, fmt::format("cannot lock {}: {}", path, std::strerror(errno)), {}};
    return Error{
        ErrorCode::kHeld,
        fmt::format(
            "the run directory is held by a live launch: {} (lock {})", describe_holder(fd.get()), path),
        "wait for it, stop it with SIGTERM, or choose another run.dir"};
  }
  // Best effort: a full disk is found, and said, by the check of the run directory that follows.
  const std::string self = describe_self();
  if (ftruncate(fd.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t n = pwrite(fd.get(), self.data(), self.size(), 0);
  }
  return RunLock(std::move(fd));
}

}  // namespace llmtrain
