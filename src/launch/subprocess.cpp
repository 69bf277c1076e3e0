#include "llmtrain/launch/subprocess.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/system_limits.hpp"

namespace llmtrain {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Everything that the child needs, made before the fork: after it only system calls are allowed.
struct ChildPlan {
  const SpawnOptions& options;
  std::vector<char*> argv;
  std::vector<char*> envp;
  pid_t parent;
  int status_fd;  // close-on-exec; errno is written to it when exec does not happen
  sigset_t blocked;
};

// A descriptor below 3 would be overwritten when standard streams are put in place.
int out_of_the_way(int fd) {
  return fd < 0 || fd > 2 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

bool prepare_child(const ChildPlan& plan) {
  if (setpgid(0, 0) != 0) return false;
  // Set after the fork, since it is cleared there; then the parent may be gone already.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  if (getppid() != plan.parent) {
    errno = ESRCH;
    return false;
  }
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int streams[] = {null,
                         plan.options.stdout_fd < 0 ? null : out_of_the_way(plan.options.stdout_fd),
                         plan.options.stderr_fd < 0 ? null : out_of_the_way(plan.options.stderr_fd)};
  // The null device may have got a low number itself if the parent had a standard stream closed.
  for (const int fd : streams)
    if (fd < 0) return false;
  if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0) return false;
  for (int target = 0; target < 3; ++target) {
    if (streams[target] == target)
      fcntl(target, F_SETFD, 0);
    else if (dup2(streams[target], target) < 0)
      return false;
  }
  for (const int fd : plan.options.inherited_fds)
    if (fcntl(fd, F_SETFD, 0) != 0) return false;
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &standard, nullptr);
  return sigprocmask(SIG_SETMASK, &plan.blocked, nullptr) == 0;
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  if (prepare_child(plan)) execve(plan.options.executable.c_str(), plan.argv.data(), plan.envp.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(plan.status_fd, &error, sizeof error);
  _exit(127);
}

// Blocks until exec has closed the pipe (0) or the child has reported why it did not come to that.
int exec_error(int fd) {
  int error = 0;
  ssize_t n;
  do n = read(fd, &error, sizeof error);
  while (n < 0 && errno == EINTR);
  return n == sizeof error ? error : 0;
}

std::optional<ProcessEnd> wait_for(pid_t pid, int flags) {
  int status = 0;
  pid_t done;
  do done = waitpid(pid, &status, flags);
  while (done < 0 && errno == EINTR);
  if (done != pid) return std::nullopt;
  if (WIFSIGNALED(status)) return ProcessEnd{true, WTERMSIG(status)};
  return ProcessEnd{false, WEXITSTATUS(status)};
}

}  // namespace

Result<Subprocess> Subprocess::spawn(const SpawnOptions& options) {
  const auto refuse = [&](const char* what, int error) {
    return system_error(ErrorCode::kPreflight, fmt::format("cannot {} {}", what, options.executable), error);
  };
  int status_pipe[2];
  if (pipe2(status_pipe, O_CLOEXEC) != 0) return refuse("start", errno);
  const UniqueFd status_read(status_pipe[0]);
  UniqueFd status_write(status_pipe[1]);
  ChildPlan plan{
      options, pointers(options.arguments), pointers(options.environment), getpid(), status_write.get(), {}};
  sigemptyset(&plan.blocked);
  for (const int signal : options.blocked_signals) sigaddset(&plan.blocked, signal);

  const pid_t pid = fork();
  if (pid < 0) return refuse("fork for", errno);
  if (pid == 0) run_child(plan);
  status_write.reset();
  Subprocess child(pid, UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))));
  if (!child.pidfd_.valid()) return refuse("watch", errno);
  if (const int error = exec_error(status_read.get()); error != 0) return refuse("run", error);
  return child;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  return *this;
}

Subprocess::~Subprocess() {
  if (pid_ <= 0) return;
  if (kill_group()) wait_for(pid_, 0);
}

Status Subprocess::kill_group() {
  if (pid_ <= 0) return ok_status();
  kill(-pid_, SIGKILL);
  if (kill(pid_, SIGKILL) == 0) return ok_status();  // should it have left its group
  return system_error(ErrorCode::kPreflight, fmt::format("cannot kill process {}", pid_));
}

std::optional<ProcessEnd> Subprocess::reap() {
  if (pid_ <= 0) return std::nullopt;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  kill(-pid_, SIGKILL);
  const auto end = wait_for(pid_, 0);
  pid_ = -1;
  return end;
}

Status adopt_orphans() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) return ok_status();
  return Error{ErrorCode::kPreflight, fmt::format("cannot adopt orphans: {}", std::strerror(errno)), {}};
}

int kill_adopted_orphans(const std::vector<pid_t>& keep) {
  std::set<pid_t> killed;
  // Killing one may hand its own children over: look again until nobody is left.
  for (int round = 0; round < 1000; ++round) {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", gettid()));
    int left = 0;
    for (pid_t pid; children >> pid;) {
      if (std::find(keep.begin(), keep.end(), pid) != keep.end()) continue;
      killed.insert(pid);
      kill(pid, SIGKILL);
      if (!wait_for(pid, WNOHANG)) ++left;
    }
    if (left == 0) break;
    usleep(1000);
  }
  return static_cast<int>(killed.size());
}

}  // namespace llmtrain
