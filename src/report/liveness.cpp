#include "llmtrain/report/liveness.hpp"

#include <fstream>
#include <sstream>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fmt/format.h>

#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {

bool holds_lock(const std::string& table, unsigned major, unsigned minor, unsigned long inode) {
  const std::string wanted = fmt::format("{:02x}:{:02x}:{}", major, minor, inode);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, pid, file;
    // A waiting process has an arrow behind its number: it holds nothing.
    if (words >> number >> kind && kind == "FLOCK" && words >> mode >> access >> pid >> file &&
        access == "WRITE" && file == wanted)
      return true;
  }
  return false;
}

LockState look_at_lock(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno == ENOENT ? LockState::kFree : LockState::kUnknown;
  std::ifstream file("/proc/locks");
  if (!file) return LockState::kUnknown;
  std::stringstream table;
  table << file.rdbuf();
  return holds_lock(table.str(), major(info.st_dev), minor(info.st_dev), info.st_ino) ? LockState::kHeld
                                                                                      : LockState::kFree;
}

std::string heartbeat(FileSystem& files, const RunDir& run) {
  std::string beat;
  for (const auto& path : {run.lease(), run.control() / "status.json"})
    if (const auto text = read_file(files, path.string(), 16 << 20)) beat += *text;
  return beat;
}

}  // namespace llmtrain
