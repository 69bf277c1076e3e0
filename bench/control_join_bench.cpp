#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/control/control_group.hpp"

// How long so many agents take to join one leader, and what the leader costs once they are there. The agents
// live in a second process, so that the leader's processor time is its own.
//   control_join_bench [agents = 1000] [seconds of steady state = 10]
namespace {

using namespace llmtrain;

ControlOptions options(const std::string& directory, int nodes, int rank) {
  ControlOptions o;
  o.self.rdzv_id = "bench";
  o.self.host = fmt::format("host{}", rank);
  o.self.address = "127.0.0.1";
  o.self.node_rank = rank;
  o.min_nodes = o.max_nodes = nodes;
  o.control_dir = directory;
  o.token = "a token of this run";
  o.founder = rank == 0;
  if (o.founder) o.endpoint = "127.0.0.1:0";
  return o;
}

std::unique_ptr<ControlGroup> open_group(const ControlOptions& o, FileSystem& files) {
  auto group = ControlGroup::open(o, files);
  if (!group) {
    std::fprintf(stderr, "%s\n", to_string(group.error()).c_str());
    std::exit(1);
  }
  return std::move(*group);
}

int wait_until(const std::vector<std::unique_ptr<ControlGroup>>& groups, std::vector<pollfd>& fds) {
  fds.clear();
  Instant due = steady_now() + Milliseconds{100};
  for (const auto& group : groups) {
    group->add_poll_fds(fds);
    if (const auto deadline = group->deadline()) due = std::min(due, *deadline);
  }
  const Milliseconds wait = std::max(Milliseconds{0}, due - steady_now());
  return ::poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
}

[[noreturn]] void follow(const std::string& directory, int agents) {
  const auto files = make_posix_filesystem();
  std::vector<std::unique_ptr<ControlGroup>> groups;
  for (int rank = 1; rank <= agents; ++rank)
    groups.push_back(open_group(options(directory, agents + 1, rank), *files));
  std::vector<pollfd> fds;
  while (true) {
    wait_until(groups, fds);
    const Instant now = steady_now();
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto due = groups[i]->deadline();
      if (fds[i].revents != 0 || (due && *due <= now)) groups[i]->poll(now);
    }
  }
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  const int agents = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int steady_seconds = argc > 2 ? std::atoi(argv[2]) : 10;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::string directory = (std::filesystem::temp_directory_path() / "llmtrain-bench-XXXXXX").string();
  if (!::mkdtemp(directory.data())) return 1;

  const pid_t child = ::fork();
  if (child == 0) follow(directory, agents);
  const auto files = make_posix_filesystem();
  std::vector<std::unique_ptr<ControlGroup>> leader;
  const Instant start = steady_now();
  leader.push_back(open_group(options(directory, agents + 1, 0), *files));
  std::vector<pollfd> fds;
  int joined = 0, lost = 0;
  const auto turn = [&] {
    wait_until(leader, fds);
    for (const GroupEvent& event : leader[0]->poll(steady_now())) {
      joined += std::holds_alternative<MemberJoined>(event) ? 1 : 0;
      lost +=
          std::holds_alternative<MemberLost>(event) || std::holds_alternative<MemberSilent>(event) ? 1 : 0;
    }
  };
  while (joined < agents && steady_now() - start < Milliseconds{120'000}) turn();
  const double join_seconds = static_cast<double>((steady_now() - start).count()) / 1000;
  const double join_cost = processor_seconds();
  const Instant steady = steady_now();
  while (steady_now() - steady < Milliseconds{1'000} * steady_seconds) turn();
  const double share =
      (processor_seconds() - join_cost) / (static_cast<double>((steady_now() - steady).count()) / 1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  std::filesystem::remove_all(directory);
  fmt::print(
      "agents={} joined={} join_s={:.2f} join_cpu_s={:.2f} steady_cpu_percent={:.1f} false_alarms={}\n",
      agents,
      joined,
      join_seconds,
      join_cost,
      100 * share,
      lost);
  return joined == agents ? 0 : 1;
}
