#include "llmtrain/launch/subprocess.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/launch/worker_process.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
namespace fs = std::filesystem;

namespace {

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.executable = "/bin/sh";
  options.arguments = {"sh", "-c", script};
  options.environment = {"PATH=/usr/bin:/bin"};
  return options;
}

ProcessEnd wait_end(Subprocess& child) {
  pollfd ready{child.pidfd(), POLLIN, 0};
  while (poll(&ready, 1, -1) < 0) {
  }
  const auto end = child.reap();
  REQUIRE(end.has_value());
  return *end;
}

UniqueFd open_file(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Waits, without a limit of its own (the test has one), until the condition holds.
template <class Condition>
void until(Condition holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

bool alive(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(stat, text);
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

pid_t pid_in(const std::string& path) {
  pid_t pid = 0;
  until([&] {
    return static_cast<bool>(std::ifstream(path) >> pid) && pid > 0 && contents(path).ends_with('\n');
  });
  return pid;
}

}  // namespace

namespace {

// As a container's profile does: from now on `call` is not permitted to this process.
bool forbid(int call) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(rules), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// What `body` says in a process that may not make the call; "no seccomp" where that cannot be arranged.
template <class Body>
std::string said_without(int call, Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string text = forbid(call) ? body() : "no seccomp";
    [[maybe_unused]] const ssize_t n = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  return text;
}

}  // namespace

TEST_CASE("subprocess: a call that the system does not permit is named, with what to look at", "[launch]") {
  const std::string unkilled = said_without(SYS_kill, [] {
    auto child = Subprocess::spawn(shell("sleep 1000"));
    if (!child) return to_string(child.error());
    const Status killed = child->kill_group();
    return killed ? std::string("killed") : to_string(killed.error());
  });
  if (unkilled == "no seccomp") return;  // a host that has none
  CHECK(unkilled.starts_with("cannot kill process "));
  CHECK(unkilled.find(
            "Operation not permitted; the system does not permit it: look at the container's seccomp") !=
        std::string::npos);
  for (const int call : {SYS_pidfd_open, SYS_memfd_create, SYS_close_range}) {
    const std::string refused = said_without(call, [] {
      const auto child = Subprocess::spawn(shell("sleep 1000"));
      const auto memory = make_memory_file("test", 4096);
      return child.ok() ? memory.ok() ? "" : to_string(memory.error()) : to_string(child.error());
    });
    INFO(refused);
    CHECK(refused.starts_with("cannot "));
    CHECK(refused.find("Operation not permitted; the system does not permit it") != std::string::npos);
  }
}

TEST_CASE("subprocess: a limit that is reached is named, with its value and where it is set", "[launch]") {
  const auto limited = [](__rlimit_resource which, rlim_t value, auto body) {
    return said_without(SYS_acct, [=] {
      const rlimit limit{value, value};
      setrlimit(which, &limit);
      return body();
    });
  };
  const auto spawned = [] {
    const auto child = Subprocess::spawn(shell("true"));
    return child ? std::string() : to_string(child.error());
  };
  const std::string files = limited(RLIMIT_NOFILE, 7, spawned);
  CHECK(
      files.find(
          "Too many open files; a process may have 7 open files here, and at most 7: raise the limit (ulimit "
          "-n)") != std::string::npos);
  const std::string memory = limited(RLIMIT_FSIZE, 1024, [] {
    std::signal(SIGXFSZ, SIG_IGN);
    const auto made = make_memory_file("test", 4096);
    return made ? std::string() : to_string(made.error());
  });
  CHECK(memory ==
        "cannot make 4096 bytes of shared memory: File too large; a file may have 1024 bytes here: raise the "
        "limit (ulimit -f)");
}

TEST_CASE("subprocess: an exit code and a signal come back as what they are", "[launch]") {
  auto exits = Subprocess::spawn(shell("exit 73"));
  REQUIRE(exits.ok());
  const ProcessEnd exit = wait_end(*exits);
  CHECK_FALSE(exit.signaled);
  CHECK(exit.code == 73);
  CHECK_FALSE(exits->running());
  CHECK_FALSE(exits->reap().has_value());

  auto dies = Subprocess::spawn(shell("kill -SEGV $$"));
  REQUIRE(dies.ok());
  const ProcessEnd signal = wait_end(*dies);
  CHECK(signal.signaled);
  CHECK(signal.code == SIGSEGV);
}

TEST_CASE("subprocess: a program that cannot run is an error here, not an exit code there", "[launch]") {
  SpawnOptions options = shell("");
  options.executable = "/nowhere/program";
  const auto child = Subprocess::spawn(options);
  REQUIRE_FALSE(child.ok());
  CHECK(child.error().message == "cannot run /nowhere/program: No such file or directory");
}

TEST_CASE("subprocess: it inherits the listed descriptors, streams and environment, and nothing else",
          "[launch]") {
  const test::TemporaryDirectory directory;
  const UniqueFd out = open_file(directory / "out");
  const UniqueFd listed = open_file(directory / "listed");
  const UniqueFd leaked(open("/dev/null", O_RDONLY));  // not even close-on-exec
  SpawnOptions options = shell("ls /proc/$$/fd; env; readlink /proc/$$/fd/0; ps -o pgid= -p $$; echo $$");
  options.environment.emplace_back("LLMTRAIN_TEST=a b");
  options.stdout_fd = out.get();
  options.inherited_fds = {listed.get()};
  auto child = Subprocess::spawn(options);
  REQUIRE(child.ok());
  const pid_t pid = child->pid();
  CHECK(wait_end(*child).code == 0);

  std::istringstream lines(contents(directory / "out"));
  std::set<std::string> fds;
  std::string line;
  while (std::getline(lines, line) && line.find('=') == std::string::npos) fds.insert(line);
  CHECK(fds == std::set<std::string>{"0", "1", "2", std::to_string(listed.get())});
  const std::string text = contents(directory / "out");
  CHECK(text.find("LLMTRAIN_TEST=a b\n") != std::string::npos);
  CHECK(text.find("HOME=") == std::string::npos);
  CHECK(text.find("/dev/null\n") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') > 6);
  CHECK(text.find(fmt::format("{}\n{}\n", pid, pid)) != std::string::npos);  // leads a group of its own
}

TEST_CASE("subprocess: listed signals are blocked in the child, others are not", "[launch]") {
  auto child = Subprocess::spawn([] {
    SpawnOptions options = shell("kill -TERM $$; kill -USR2 $$; exit 3");
    options.blocked_signals = {SIGTERM};
    return options;
  }());
  REQUIRE(child.ok());
  const ProcessEnd end = wait_end(*child);
  CHECK(end.signaled);
  CHECK(end.code == SIGUSR2);
}

TEST_CASE("subprocess: grandchildren die with the group, whether the child is killed or leaves by itself",
          "[launch]") {
  const test::TemporaryDirectory directory;
  const bool killed = GENERATE(true, false);
  auto child = Subprocess::spawn(
      shell(fmt::format("sleep 1000 & echo $! > '{}'; {}", directory / "pid", killed ? "wait" : "exit 0")));
  REQUIRE(child.ok());
  const pid_t grandchild = pid_in(directory / "pid");
  if (killed) CHECK(child->kill_group().ok());
  const ProcessEnd end = wait_end(*child);
  CHECK(end.signaled == killed);
  until([&] { return !alive(grandchild); });
}

TEST_CASE("subprocess: a grandchild that left the group is adopted, found and killed", "[launch]") {
  const test::TemporaryDirectory directory;
  REQUIRE(adopt_orphans().ok());
  auto child = Subprocess::spawn(
      shell(fmt::format("setsid sh -c 'echo $$ > \"{}\"; exec sleep 1000' & wait", directory / "pid")));
  REQUIRE(child.ok());
  const pid_t grandchild = pid_in(directory / "pid");
  CHECK(child->kill_group().ok());
  wait_end(*child);
  CHECK(alive(grandchild));
  CHECK(kill_adopted_orphans({}) == 1);
  CHECK_FALSE(alive(grandchild));
}

TEST_CASE("subprocess: going out of scope kills and reaps", "[launch]") {
  pid_t pid = 0;
  {
    auto child = Subprocess::spawn(shell("sleep 1000; true"));
    REQUIRE(child.ok());
    pid = child->pid();
    CHECK(alive(pid));
  }
  CHECK(kill(pid, 0) != 0);
}

TEST_CASE("subprocess: the child dies with its parent", "[launch]") {
  const test::TemporaryDirectory directory;
  const pid_t parent = fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    auto child = Subprocess::spawn(shell(fmt::format("echo $$ > '{}'; exec sleep 1000", directory / "pid")));
    pause();
    _exit(1);
  }
  const pid_t child = pid_in(directory / "pid");
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  until([&] { return !alive(child); });
}
