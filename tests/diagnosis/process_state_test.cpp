#include "llmtrain/diagnosis/process_state.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "llmtrain/diagnosis/memory_watch.hpp"
#include "llmtrain/diagnosis/stack_request.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;

namespace {

void put(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

struct Child {
  template <class Body>
  explicit Child(Body&& body) : pid(fork()) {
    if (pid != 0) return;
    body();
    _exit(0);
  }
  ~Child() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  pid_t pid;
};

}  // namespace

TEST_CASE("process state: what the kernel says, whatever the name is", "[diagnosis]") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path root(directory.path());
  const KernelRoots roots{.proc = directory.path(), .cgroup = directory.path()};
  put(root / "7/stat", "7 (a ) R (b) T 1 2 3");
  put(root / "7/wchan", "do_signal_stop");
  CHECK(process_state(7, roots).state == "T");
  CHECK(process_state(7, roots).wait_channel == "do_signal_stop");
  put(root / "7/wchan", "0");
  CHECK(process_state(7, roots).wait_channel.empty());
  put(root / "7/wchan", "x\x1b[2J");
  CHECK(process_state(7, roots).wait_channel.empty());
  for (const char* text : {"", "7", "7 (name)", "7 (name) ", "7 (name) 5"}) {
    put(root / "8/stat", text);
    CHECK(process_state(8, roots).state.empty());
  }
  CHECK(process_state(9, roots).state.empty());
}

TEST_CASE("process state: a frozen cgroup, of both versions, is seen where the state is that of any sleep",
          "[diagnosis]") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path root(directory.path());
  const KernelRoots roots{.proc = root / "proc", .cgroup = root / "cg"};
  put(root / "proc/7/stat", "7 (a) S 1 2 3");
  put(root / "proc/7/wchan", "hrtimer_nanosleep");
  put(root / "proc/7/cgroup", "6:freezer:/job\n0::/user\n");
  CHECK(process_state(7, roots).wait_channel == "hrtimer_nanosleep");
  put(root / "cg/freezer/job/freezer.state", "THAWED\n");
  put(root / "cg/unified/user/cgroup.events", "populated 1\nfrozen 0\n");
  CHECK(process_state(7, roots).wait_channel == "hrtimer_nanosleep");
  put(root / "cg/freezer/job/freezer.state", "FROZEN\n");
  CHECK(process_state(7, roots).wait_channel == "frozen_cgroup");
  put(root / "cg/freezer/job/freezer.state", "THAWED\n");
  put(root / "cg/unified/user/cgroup.events", "populated 1\nfrozen 1\n");
  CHECK(process_state(7, roots).wait_channel == "frozen_cgroup");
}

TEST_CASE("process state: a stopped process is seen", "[diagnosis]") {
  CHECK(process_state(getpid()).state == "R");
  const Child child([] { pause(); });
  kill(child.pid, SIGSTOP);
  waitpid(child.pid, nullptr, WUNTRACED);
  CHECK(process_state(child.pid).state == "T");
}

TEST_CASE("process state: kills for lack of memory, both versions of cgroups", "[diagnosis]") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path root(directory.path());
  const KernelRoots roots{.proc = root / "proc", .cgroup = root / "cg"};
  const auto kills = [&](pid_t pid) -> std::optional<std::uint64_t> {
    const auto counter = memory_counter(pid, roots);
    return counter ? oom_kills(*counter) : std::nullopt;
  };
  CHECK_FALSE(kills(7).has_value());
  put(root / "proc/7/cgroup", "9:cpu,memory:/job\n0::/\n");
  CHECK_FALSE(kills(7).has_value());
  put(root / "cg/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  CHECK(kills(7) == 1);  // a container: only the root of its own cgroup is mounted
  put(root / "cg/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  CHECK(kills(7) == 3);
  put(root / "proc/8/cgroup", "0::/user/job\n");
  put(root / "cg/user/job/memory.events", "low 0\nhigh 0\nmax 5\noom 2\noom_kill 2\noom_group_kill 0\n");
  CHECK(kills(8) == 2);
  put(root / "proc/9/cgroup", "0::/../../etc\n");
  CHECK_FALSE(kills(9).has_value());
  put(root / "cg/user/job/memory.events", "oom_kill many\n");
  CHECK_FALSE(kills(8).has_value());
}

TEST_CASE("memory watch: a worker's own group counts, and the limit above it is named", "[diagnosis]") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path root(directory.path());
  const KernelRoots roots{.proc = root / "proc", .cgroup = root / "cg"};
  const auto killed = [&](const std::string& group, int count) {
    put(root / "cg/memory" / group / "memory.oom_control", "oom_kill " + std::to_string(count) + "\n");
  };
  killed("job/agent", 0);
  killed("job/worker", 4);
  put(root / "cg/memory/job/memory.limit_in_bytes", "1048576\n");
  put(root / "proc/7/cgroup", "4:memory:/job/agent\n");
  put(root / "proc/8/cgroup", "4:memory:/job/worker\n");
  MemoryWatch watch(roots);
  for (const pid_t pid : {7, 8, 9, 8}) watch.watch(pid);
  CHECK(watch.take() == MemoryKills{});
  std::filesystem::remove_all(root / "proc/8");  // dead: it has no group any more
  killed("job/worker", 6);
  CHECK(watch.take() == MemoryKills{2, {1048576, "/job"}});
  CHECK(watch.take() == MemoryKills{});
  std::filesystem::remove_all(root / "cg/memory/job");
  CHECK(watch.take() == MemoryKills{});
}

TEST_CASE("stack request: the newest stack of the process, between other lines", "[diagnosis]") {
  const std::string text =
      "step 3\nllmtrain-stack begin 41\nllmtrain-stack 0 a.so+0x1 old\nllmtrain-stack end\n"
      "llmtrain-stack begin 41\nllmtrain-stack 0 a.so+0x12 f(int)\nnoise\nllmtrain-stack 1 b\x01+0x3 g\n"
      "llmtrain-stack begin 42\nllmtrain-stack 0 c.so+0x9 other\n";
  const ParsedStack stack = parse_stack(text, 41);
  CHECK(stack.frames == std::vector<std::string>{"0 a.so+0x12 f(int)", "1 b?+0x3 g"});
  CHECK_FALSE(stack.complete);
  CHECK(parse_stack(text + "llmtrain-stack end\n", 42).complete);
  CHECK(parse_stack("llmtrain-stack begin 41\nllmtrain-stack 0 half", 41).frames.empty());
  CHECK(parse_stack("", 41).frames.empty());
  std::string flood = "llmtrain-stack begin 41\n";
  for (int i = 0; i < 1000; ++i) flood += "llmtrain-stack " + std::string(1000, 'x') + "\n";
  CHECK(parse_stack(flood, 41).frames.size() == 128);
  CHECK(parse_stack(flood, 41).frames[0].size() == 256);
}

TEST_CASE("stack request: a stopped worker is continued and answers; a deaf one is not waited for",
          "[diagnosis]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/err";
  put(path, "llmtrain-stack begin 1\nllmtrain-stack 0 old\n");
  static std::string answer_path;
  answer_path = path;
  const Child worker([] {
    std::signal(SIGUSR2, [](int) {
      std::ofstream(answer_path, std::ios::app)
          << "llmtrain-stack begin " << getpid() << "\nllmtrain-stack 0 m+0x1 main\nllmtrain-stack end\n";
    });
    for (;;) pause();
  });
  const Child deaf([] {
    std::signal(SIGUSR2, SIG_IGN);
    for (;;) pause();
  });
  std::this_thread::sleep_for(100ms);  // until both have their handlers
  kill(worker.pid, SIGSTOP);
  waitpid(worker.pid, nullptr, WUNTRACED);

  StackRequest request(SIGUSR2);
  CHECK(request.ask(0, worker.pid, true));
  CHECK(request.ask(1, deaf.pid, false));
  CHECK_FALSE(request.ask(2, 0, false));
  std::string text;
  const auto stacks = request.collect([&](int) -> std::string_view {
    std::ifstream file(path);
    text.assign(std::istreambuf_iterator<char>(file), {});
    return text;
  });
  CHECK(stacks == std::map<int, std::vector<std::string>>{{0, {"0 m+0x1 main"}}});
}
