#include "llmtrain/diagnosis/stack_request.hpp"

#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace llmtrain {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxFrames = 128;
constexpr std::size_t kMaxFrameBytes = 256;

std::string printable(std::string_view text) {
  std::string result(text.substr(0, kMaxFrameBytes));
  for (char& c : result)
    if (c < ' ' || c > '~') c = '?';
  return result;
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
    if (!line.starts_with(kStackPrefix)) continue;
    line.remove_prefix(kStackPrefix.size());
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

bool StackRequest::ask(int rank, pid_t pid, bool stopped) {
  if (pid <= 0 || kill(pid, signal_) != 0) return false;
  if (stopped) kill(pid, SIGCONT);
  asked_[rank] = pid;
  return true;
}

std::map<int, std::vector<std::string>> StackRequest::collect(const Text& text,
                                                              std::chrono::milliseconds limit) {
  std::map<int, std::vector<std::string>> stacks;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (auto waiting = std::exchange(asked_, {}); !waiting.empty();) {
    for (auto it = waiting.begin(); it != waiting.end();) {
      const ParsedStack stack = parse_stack(text(it->first), it->second);
      if (!stack.frames.empty()) stacks[it->first] = stack.frames;
      it = stack.complete ? waiting.erase(it) : std::next(it);
    }
    if (waiting.empty() || std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(5ms);
  }
  return stacks;
}

}  // namespace llmtrain
