#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/doctor/read_host.hpp"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// A file without a name; where the file system has none, one whose name goes at once. Returns what failed.
std::string write_nothing(const std::string& directory) {
  const UniqueFd nameless(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (nameless.valid()) return ::write(nameless.get(), "x", 1) == 1 ? "" : std::strerror(errno);
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return std::strerror(errno);
  std::string pattern = directory + "/.llmtrain-probe-XXXXXX";
  const UniqueFd named(::mkstemp(pattern.data()));
  if (!named.valid()) return std::strerror(errno);
  const bool written = ::write(named.get(), "x", 1) == 1;
  const int error = errno;
  ::unlink(pattern.c_str());
  return written ? "" : std::strerror(error);
}

}  // namespace

RunDirFacts probe_run_dir(const std::string& path) {
  RunDirFacts facts;
  facts.path = path;
  std::error_code error;
  fs::path nearest = fs::absolute(path, error);
  while (!fs::exists(nearest, error) && nearest.has_relative_path()) nearest = nearest.parent_path();
  facts.probed = nearest == fs::absolute(path, error) ? path : nearest.string();
  if (!fs::is_directory(nearest, error)) {
    facts.problem = "it is no directory";
    return facts;
  }
  facts.problem = write_nothing(nearest.string());
  struct statvfs space {};
  if (::statvfs(nearest.c_str(), &space) == 0)
    facts.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  return facts;
}

}  // namespace llmtrain
