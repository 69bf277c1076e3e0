#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/launch/launched_job.hpp"

// Several agents of the real executable on this host, as if they were nodes that share a run directory.
namespace llmtrain::test {

// A port of the loopback that nobody uses at the moment.
inline int free_port() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

class LaunchedNodes {
 public:
  // Two ranks on each of `nodes` nodes; `range` is what --nnodes is given.
  explicit LaunchedNodes(int nodes, std::string range = "")
      : range_(range.empty() ? std::to_string(nodes) : std::move(range)),
        endpoint_(fmt::format("127.0.0.1:{}", free_port())) {
    job.settings = {fmt::format("parallelism.dp={}", 2 * nodes), "resilience.collective_timeout_s=60"};
  }

  // Starts an agent; `rank` -1 gives it no node rank. Returns its index.
  int start(int rank, const std::vector<std::string>& more = {}) {
    SpawnOptions options;
    options.executable = LLMTRAIN_EXECUTABLE;
    options.arguments = {
        "llmtrain", "launch", job.directory() + "/job.yaml", "--engine", LLMTRAIN_FAKE_ENGINE};
    for (const std::string& setting : job.settings)
      options.arguments.insert(options.arguments.end(), {"--set", setting});
    options.arguments.insert(options.arguments.end(),
                             {"--set",
                              "run.dir=" + job.run_dir().string(),
                              "--nnodes",
                              range_,
                              "--nproc-per-node",
                              "2",
                              "--rdzv-endpoint",
                              endpoint_});
    if (rank >= 0) options.arguments.insert(options.arguments.end(), {"--node-rank", std::to_string(rank)});
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    options.environment = {"PATH=/usr/bin:/bin", "FAKE_ENGINE=" + job.script};
    consoles_.push_back(fmt::format("{}/agent-{}", job.directory(), consoles_.size()));
    const UniqueFd out(open(consoles_.back().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    options.stdout_fd = options.stderr_fd = out.get();
    auto started = Subprocess::spawn(options);
    REQUIRE(started.ok());
    agents_.push_back(std::move(started).value());
    return static_cast<int>(agents_.size()) - 1;
  }
  int wait(int agent) {
    Subprocess& process = agents_.at(static_cast<std::size_t>(agent));
    pollfd ready{process.pidfd(), POLLIN, 0};
    while (poll(&ready, 1, -1) < 0) {
    }
    const auto end = process.reap();
    REQUIRE(end.has_value());
    INFO(console(agent));
    return end->signaled ? 128 + end->code : end->code;
  }
  pid_t pid(int agent) const { return agents_.at(static_cast<std::size_t>(agent)).pid(); }
  void signal(int agent, int number) const { ::kill(pid(agent), number); }
  pid_t worker(int agent, int rank) const {
    for (const pid_t child : children_of(pid(agent)))
      if (comm_of(child) == fmt::format("llmtrain-r{}", rank)) return child;
    return -1;
  }
  std::string console(int agent) const { return slurp(consoles_.at(static_cast<std::size_t>(agent))); }
  std::string consoles() const {
    std::string text;
    for (std::size_t i = 0; i < consoles_.size(); ++i)
      text += fmt::format("--- agent {}\n{}", i, slurp(consoles_[i]));
    return text;
  }
  // An agent that ends early ends the wait.
  void wait_for_step(std::int64_t step) const {
    const auto somebody_ended = [this] {
      return std::any_of(agents_.begin(), agents_.end(), [](const Subprocess& agent) {
        return agent.running() && !alive(agent.pid());
      });
    };
    until([&] { return job.last_step() >= step || somebody_ended(); });
    INFO(consoles());
    REQUIRE(job.last_step() >= step);
  }

  LaunchedJob job;  // its directory, settings and script; it is not started itself

 private:
  std::string range_;
  std::string endpoint_;
  std::vector<Subprocess> agents_;
  std::vector<std::string> consoles_;
};

}  // namespace llmtrain::test
