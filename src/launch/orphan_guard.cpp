#include "llmtrain/launch/orphan_guard.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/control/handshake.hpp"
#include "llmtrain/core/hex.hpp"
#include "llmtrain/core/system_limits.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMostEnvironment = 4 << 20;  // Linux allows no more than 6 MiB with the arguments
constexpr int kRounds = 1000;                      // of two milliseconds
constexpr int kCleanRounds = 3;  // in a row: one that forks while we look is seen in the next one

std::string environment_of(const char* pid) {
  const UniqueFd fd(open(fmt::format("/proc/{}/environ", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 16384> buffer;
  while (fd.valid() && text.size() < kMostEnvironment) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

bool holds(const std::string& environment, std::string_view entry) {
  for (std::size_t at = environment.find(entry); at != std::string::npos;
       at = environment.find(entry, at + 1)) {
    const std::size_t end = at + entry.size();
    if ((at == 0 || environment[at - 1] == '\0') && (end == environment.size() || environment[end] == '\0'))
      return true;
  }
  return false;
}

void kill_marked(std::string_view mark) {
  for (int round = 0, clean = 0; round < kRounds && clean < kCleanRounds; ++round) {
    const auto found = processes_marked(mark);
    for (const pid_t pid : found) kill(pid, SIGKILL);
    clean = found.empty() ? clean + 1 : 0;
    usleep(2000);
  }
}

// Nothing of the agent's stays open here: neither its sockets nor its lock. No signal but SIGKILL ends it:
// those that a scheduler sends to every process are not meant for it.
[[noreturn]] void guard(int pipe, const std::string& mark) {
  setsid();
  prctl(PR_SET_NAME, "llmtrain-aux", 0, 0, 0);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream = 0; stream < 3; ++stream) dup2(null, stream);
  if (dup2(pipe, 3) < 0 || syscall(SYS_close_range, 4U, ~0U, 0) != 0) _exit(1);
  char farewell = 0;
  ssize_t n;
  do n = read(3, &farewell, 1);
  while (n < 0 && errno == EINTR);
  if (n == 0) kill_marked(mark);
  _exit(0);
}

}  // namespace

std::vector<pid_t> processes_marked(std::string_view entry) {
  std::vector<pid_t> found;
  DIR* const proc = opendir("/proc");
  if (proc == nullptr) return found;
  while (const dirent* const item = readdir(proc)) {
    const char* const end = item->d_name + std::strlen(item->d_name);
    pid_t pid = 0;
    const auto parsed = std::from_chars(item->d_name, end, pid);
    if (parsed.ec != std::errc() || parsed.ptr != end || pid == getpid()) continue;
    if (holds(environment_of(item->d_name), entry)) found.push_back(pid);
  }
  closedir(proc);
  return found;
}

Result<OrphanGuard> OrphanGuard::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error(ErrorCode::kPreflight, "cannot make a pipe");
  const UniqueFd theirs(ends[0]);
  UniqueFd ours(ends[1]);
  const std::string mark = "LLMTRAIN_AGENT=" + to_hex(random_bytes(16));
  const pid_t pid = fork();
  if (pid < 0) return system_error(ErrorCode::kPreflight, "cannot start the guard of the workers' children");
  if (pid == 0) guard(theirs.get(), mark);
  return OrphanGuard(mark, pid, std::move(ours));
}

OrphanGuard::~OrphanGuard() {
  if (pid_ <= 0) return;
  sigset_t pipe_signal;
  sigset_t before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  [[maybe_unused]] const ssize_t n = write(pipe_.get(), "q", 1);
  const timespec now{};
  sigtimedwait(&pipe_signal, nullptr, &now);  // somebody has killed the guard
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace llmtrain
