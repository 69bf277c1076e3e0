#include "llmtrain/launch/stack_request.hpp"

#include <algorithm>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/unique_fd.hpp"

namespace llmtrain {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kPrefix = "llmtrain-stack ";
constexpr std::size_t kMaxFrames = 128;
constexpr std::size_t kMaxFrameBytes = 256;
constexpr std::size_t kMaxTextBytes = 256 << 10;

std::string printable(std::string_view text) {
  std::string result(text.substr(0, kMaxFrameBytes));
  for (char& c : result)
    if (c < ' ' || c > '~') c = '?';
  return result;
}

std::uint64_t size_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

std::string read_from(const std::string& path, std::uint64_t offset) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return {};
  std::string text(kMaxTextBytes, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n =
        pread(fd.get(), text.data() + size, text.size() - size, static_cast<off_t>(offset + size));
    if (n <= 0) break;
    size += static_cast<std::size_t>(n);
  }
  text.resize(size);
  return text;
}

}  // namespace

ParsedStack parse_stack(std::string_view text, pid_t pid) {
  ParsedStack stack;
  const std::string begin = fmt::format("begin {}", pid);
  bool inside = false;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) break;  // a line that is still being written
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (!line.starts_with(kPrefix)) continue;
    line.remove_prefix(kPrefix.size());
    if (line == begin) {
      stack = {};
      inside = true;
    } else if (line.starts_with("begin ")) {
      inside = false;
    } else if (inside && line == "end") {
      stack.complete = true;
      inside = false;
    } else if (inside && stack.frames.size() < kMaxFrames) {
      stack.frames.push_back(printable(line));
    }
  }
  return stack;
}

bool StackRequest::ask(int rank, pid_t pid, const std::string& stderr_path, bool stopped) {
  if (pid <= 0) return false;
  const std::uint64_t offset = size_of(stderr_path);
  if (kill(pid, signal_) != 0) return false;
  if (stopped) kill(pid, SIGCONT);
  asked_[rank] = {pid, stderr_path, offset};
  return true;
}

std::map<int, std::vector<std::string>> StackRequest::collect(std::chrono::milliseconds limit) {
  std::map<int, std::vector<std::string>> stacks;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (auto waiting = asked_; !waiting.empty();) {
    for (auto it = waiting.begin(); it != waiting.end();) {
      const ParsedStack stack = parse_stack(read_from(it->second.path, it->second.offset), it->second.pid);
      if (!stack.frames.empty()) stacks[it->first] = stack.frames;
      it = stack.complete ? waiting.erase(it) : std::next(it);
    }
    if (waiting.empty() || std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(5ms);
  }
  asked_.clear();
  return stacks;
}

}  // namespace llmtrain
