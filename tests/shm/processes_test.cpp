#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "llmtrain/shm/collectives.hpp"

#include "tests/support/catch.hpp"

// Ranks as processes that inherit one descriptor, as the agent starts them.

using namespace llmtrain;
using namespace std::chrono_literals;

namespace {

// A child's only way to talk: one line of text through a pipe, and its exit status.
struct Child {
  pid_t pid = -1;
  int report = -1;
};

using Body = std::function<std::string(int rank, const std::shared_ptr<ShmRegion>& region)>;

Child start_rank(int rank, int ranks, int fd, const Body& body) {
  int pipe_fds[2];
  REQUIRE(::pipe(pipe_fds) == 0);
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto region = ShmRegion::map(fd, ranks).value();
    region->attach(rank);
    const std::string text = body(rank, region);
    (void)!::write(pipe_fds[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(pipe_fds[1]);
  return {pid, pipe_fds[0]};
}

// What the child reported before `deadline`; "HANGS" after it. Reaps the child.
std::string collect(const Child& child, std::chrono::steady_clock::time_point deadline) {
  std::string text;
  char buffer[4096];
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poll_fd{.fd = child.report, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&poll_fd, 1, static_cast<int>(left.count())) != 1) {
      ::kill(child.pid, SIGKILL);
      text = "HANGS";
      break;
    }
    const ssize_t n = ::read(child.report, buffer, sizeof(buffer));
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(child.report);
  ::waitpid(child.pid, nullptr, 0);
  return text;
}

ShmGroup world(const std::shared_ptr<ShmRegion>& region, int rank, std::chrono::nanoseconds timeout) {
  ShmGroupOptions options;
  options.name = "world";
  options.rank = rank;
  options.timeout = timeout;
  for (int member = 0; member < region->world_size(); ++member) options.members.push_back(member);
  return ShmGroup(region, options);
}

std::vector<Child> start_all(int ranks, int fd, const Body& body) {
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) children.push_back(start_rank(rank, ranks, fd, body));
  return children;
}

}  // namespace

TEST_CASE("shm processes: ranks sum over an inherited descriptor, also when there are more than cores",
          "[shm]") {
  const int ranks = GENERATE(2, 4, 8);
  const UniqueFd fd = create_shm_region(ranks).value();
  const auto children = start_all(ranks, fd.get(), [&](int rank, const auto& region) -> std::string {
    ShmGroup group = world(region, rank, 20s);
    for (int call = 0; call < 100; ++call) {
      std::vector<double> data(call % 10 == 0 ? 100'001 : 50, std::sqrt(rank + call));
      double want = std::sqrt(call);
      for (int r = 1; r < ranks; ++r) want += std::sqrt(r + call);
      if (const Status status =
              shm_all_reduce(group, data.data(), data.size(), ElementType::kFp64, ReduceOp::kSum);
          !status)
        return status.error().message;
      for (const double x : data)
        if (x != want) return "wrong sum";
    }
    return "ok";
  });
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  for (const Child& child : children) CHECK(collect(child, deadline) == "ok");
}

TEST_CASE("shm processes: survivors of a killed rank end in time and name it", "[shm]") {
  // (a) before the first collective of the group, (b) in the middle of a stream of collectives.
  const bool in_the_middle = GENERATE(false, true);
  const int ranks = 4;
  const int victim = 1;
  const UniqueFd fd = create_shm_region(ranks).value();
  const auto children = start_all(ranks, fd.get(), [&](int rank, const auto& region) -> std::string {
    ShmGroup group = world(region, rank, 60s);
    if (rank == victim && !in_the_middle) ::pause();
    std::vector<float> data(200'000, 1.0F);
    while (true) {
      if (const Status status =
              shm_all_reduce(group, data.data(), data.size(), ElementType::kFp32, ReduceOp::kMax);
          !status)
        return std::to_string(group.missing_ranks().size()) + " " +
               std::to_string(group.missing_ranks().at(0)) + " " + status.error().message;
    }
  });
  std::this_thread::sleep_for(300ms);
  ::kill(children[victim].pid, SIGKILL);                         // not reaped yet: a zombie has ended too
  const auto deadline = std::chrono::steady_clock::now() + 10s;  // the waits themselves would last 60 s
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    const std::string report = collect(children[static_cast<std::size_t>(rank)], deadline);
    INFO("rank " << rank << ": " << report);
    // Survivors that ended meanwhile had arrived: only the victim is named.
    CHECK(report.find("1 1 all_reduce #") == 0);
    CHECK(report.find("did not arrive: rank 1") != std::string::npos);
  }
  collect(children[victim], deadline);
}

TEST_CASE("shm processes: a stopped rank is named when the deadline ends", "[shm]") {
  const UniqueFd fd = create_shm_region(2).value();
  const auto children = start_all(2, fd.get(), [&](int rank, const auto& region) -> std::string {
    if (rank == 1) ::raise(SIGSTOP);
    ShmGroup group = world(region, rank, 400ms);
    const Status status = shm_barrier(group);
    return status ? "ok" : status.error().message;
  });
  const std::string report = collect(children[0], std::chrono::steady_clock::now() + 10s);
  CHECK(report == "barrier #1 of group world timed out after 0.4 s; did not arrive: rank 1");
  ::kill(children[1].pid, SIGKILL);
  collect(children[1], std::chrono::steady_clock::now() + 5s);
}
