#include "llmtrain/monitor/crash_handler.hpp"

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "llmtrain/monitor/black_box.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

struct Ended {
  int status = 0;
  std::string text;
};

// A child process with the handler installed and its descriptor 2 in a pipe.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(ends[1], STDERR_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      static BlackBox box;
      box.step.store(12);
      box.phase.store(Phase::kBackward);
      box.ring[0].sequence.store(1);
      box.ring[0].bytes.store(4096);
      box.ring[0].op = {"all_reduce"};
      box.ring[0].group = {"dp"};
      box.num_collectives.store(1);
      install_crash_handler({.rank = 3, .black_box = &box, .stack_signal = SIGUSR2});
      body();
      ::_exit(0);
    }
    ::close(ends[1]);
    out_ = ends[0];
  }
  ~Child() { ::close(out_); }

  pid_t pid() const { return pid_; }
  // Reads until `text` was written, the child has ended, or ten seconds are over.
  std::string read_until(const std::string& text) {
    while (text.empty() || seen_.find(text) == std::string::npos) {
      pollfd readable{.fd = out_, .events = POLLIN, .revents = 0};
      char buffer[4096];
      if (::poll(&readable, 1, 10'000) <= 0) break;
      const ssize_t n = ::read(out_, buffer, sizeof buffer);
      if (n <= 0) break;
      seen_.append(buffer, static_cast<std::size_t>(n));
    }
    return seen_;
  }
  void forget() { seen_.clear(); }
  Ended end() {
    read_until("");
    Ended ended;
    ::waitpid(pid_, &ended.status, 0);
    ended.text = seen_;
    return ended;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string seen_;
};

int overflow_stack(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : overflow_stack(depth + 1) + frame[0];
}

}  // namespace

TEST_CASE("crash handler: a stray access leaves a record and ends by its signal", "[monitor]") {
  Child child([] {
    void* const page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile int*>(page) = 1;
  });
  const Ended ended = child.end();
  INFO(ended.text);
  CHECK(WIFSIGNALED(ended.status));
  CHECK(WTERMSIG(ended.status) == SIGSEGV);
  CHECK_THAT(ended.text, Contains("rank 3 signal SIGSEGV code 2 address 0x"));
  CHECK_THAT(ended.text, Contains(" step 12 phase backward\n"));
  CHECK_THAT(ended.text,
             Contains("llmtrain-crash collective 1 all_reduce of dp, 4096 bytes, not finished\n"));
  CHECK_THAT(ended.text, Contains("llmtrain-crash 0 /") && Contains("_test+0x"));
  CHECK_THAT(ended.text, Contains("llmtrain-crash end\n"));
}

TEST_CASE("crash handler: abort and signals from outside end by themselves", "[monitor]") {
  for (const int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) {
    Child child(
        [signal] { signal == SIGABRT ? std::abort() : static_cast<void>(::kill(::getpid(), signal)); });
    const Ended ended = child.end();
    INFO(ended.text);
    CHECK(WIFSIGNALED(ended.status));
    CHECK(WTERMSIG(ended.status) == signal);
    CHECK_THAT(ended.text, Contains("llmtrain-crash begin pid") && Contains("llmtrain-crash end\n"));
  }
}

TEST_CASE("crash handler: a stack that is full is no obstacle", "[monitor]") {
  Child child([] {
    const rlimit small{1 << 20, RLIM_INFINITY};
    ::setrlimit(RLIMIT_STACK, &small);
    overflow_stack(0);
  });
  const Ended ended = child.end();
  CHECK(WIFSIGNALED(ended.status));
  CHECK(WTERMSIG(ended.status) == SIGSEGV);
  CHECK_THAT(ended.text, Contains("signal SIGSEGV") && Contains("llmtrain-crash end\n"));
}

TEST_CASE("crash handler: on request the main thread writes its stack and goes on", "[monitor]") {
  Child child([] {
    std::thread([] {  // the signal may land on any thread that takes it
      while (true) ::pause();
    })
        .detach();
    (void)::write(STDERR_FILENO, "ready\n", 6);
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  });
  child.read_until("ready");
  for (int i = 0; i < 2; ++i) {
    child.forget();
    REQUIRE(::kill(child.pid(), SIGUSR2) == 0);
    const std::string text = child.read_until("llmtrain-stack end\n");
    INFO(text);
    CHECK_THAT(text, Contains("llmtrain-stack begin " + std::to_string(child.pid()) + "\n"));
    // It may not have come back from saying that it is ready.
    CHECK_THAT(text, Contains("libc") && (Contains("nanosleep") || Contains("write")));
  }
  ::kill(child.pid(), SIGKILL);
  CHECK(WTERMSIG(child.end().status) == SIGKILL);
}
