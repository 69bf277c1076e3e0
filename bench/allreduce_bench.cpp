// all_reduce of fp32 between processes on this host, side by side: shared memory, what libtorch does with
// Gloo (a ring), ours over Gloo (direct messages), and ours on two simulated hosts: shared memory inside
// each, Gloo between them.
//
//   allreduce_bench [--ranks N] [--json] [--max-mib M]
//
// Each size is measured in rounds: a barrier, then calls back to back; the time of a round is the
// slowest rank's, the result is the best and the median of the rounds, per call.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/comm/store.hpp"
#include "llmtrain/shm/region.hpp"

namespace llmtrain {
namespace {

struct Timing {
  double best_ms = 0;
  double median_ms = 0;
};

using AllReduce = std::function<void(at::Tensor&)>;

// `group` keeps the rounds in step and finds the slowest rank; it is not what is measured.
Timing measure(Communicator& group, const AllReduce& all_reduce, std::int64_t bytes) {
  at::Tensor data = at::full({bytes / 4}, 1.0F / 3, at::kFloat);  // [bytes / 4]
  const auto round = [&](int calls) {
    group.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) all_reduce(data);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    at::Tensor slowest = at::full({1}, time.count() / calls, at::kDouble);  // [1]
    group.all_reduce(slowest, ReduceOp::kMax);
    data.fill_(1.0F / 3);
    return slowest.item<double>();
  };
  const double once = std::min(round(2), round(2));
  const int calls =
      std::clamp(static_cast<int>(30 / std::max(once, 1e-3)), 1, 1000);  // the same on all ranks
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(round(calls));
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> make_gloo(const std::string& store_path, int rank, int ranks) {
  auto store = c10::make_intrusive<c10d::FileStore>(store_path, ranks);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 2;  // what torch uses
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, ranks, options);
}

struct Row {
  std::int64_t bytes = 0;
  Timing shm, gloo, direct, two_hosts;
};

void print_row(bool json, int ranks, const Row& row) {
  if (json) {
    fmt::print(
        "{{\"ranks\": {}, \"bytes\": {}, \"shm_ms\": {:.4f}, \"shm_best_ms\": {:.4f}, \"gloo_ms\": {:.4f}, "
        "\"gloo_best_ms\": {:.4f}, \"direct_ms\": {:.4f}, \"two_hosts_ms\": {:.4f}}}\n",
        ranks,
        row.bytes,
        row.shm.median_ms,
        row.shm.best_ms,
        row.gloo.median_ms,
        row.gloo.best_ms,
        row.direct.median_ms,
        row.two_hosts.median_ms);
  } else {
    fmt::print("{:>5}  {:>10}  {:>10.3f} {:>10.3f}  {:>10.3f} {:>10.3f}  {:>10.3f}  {:>10.3f}\n",
               ranks,
               row.bytes,
               row.shm.median_ms,
               row.shm.best_ms,
               row.gloo.median_ms,
               row.gloo.best_ms,
               row.direct.median_ms,
               row.two_hosts.median_ms);
  }
  std::fflush(stdout);
}

// What all processes inherit.
struct Setup {
  int ranks = 0;
  UniqueFd one_host;
  std::array<UniqueFd, 2> two_hosts;
  std::string store_path;

  explicit Setup(int n) : ranks(n), one_host(create_shm_region(n).value()) {
    for (UniqueFd& host : two_hosts) host = create_shm_region(std::max(1, n / 2)).value();
    store_path = std::filesystem::temp_directory_path() / fmt::format("allreduce-bench-{}-{}", ::getpid(), n);
  }
};

MeshCommsOptions options_of(const Setup& setup, int rank) {
  MeshCommsOptions options;
  options.shape.dp = setup.ranks;
  options.global_rank = rank;
  options.timeout = std::chrono::seconds(60);
  options.address = "127.0.0.1";
  return options;
}

MeshCommsOptions hosts_of(const Setup& setup, int rank, int ranks_per_host, const char* store) {
  MeshCommsOptions options = options_of(setup, rank);
  for (int r = 0; r < setup.ranks; ++r) options.host_of_rank.push_back(r / ranks_per_host);
  options.store = make_file_store(setup.store_path + store, setup.ranks);
  return options;
}

void run_rank(int rank, const Setup& setup, bool json, std::int64_t max_bytes) {
  at::set_num_threads(1);
  MeshCommsOptions options = options_of(setup, rank);
  options.region = ShmRegion::map(setup.one_host.get(), setup.ranks).value();
  MeshComms shm(options);
  const auto gloo = make_gloo(setup.store_path, rank, setup.ranks);
  MeshComms direct(hosts_of(setup, rank, 1, ".direct"));
  const int per_host = std::max(1, setup.ranks / 2);
  options = hosts_of(setup, rank, per_host, ".two");
  options.region =
      ShmRegion::map(setup.two_hosts[static_cast<std::size_t>(rank / per_host)].get(), per_host).value();
  MeshComms two_hosts(options);

  const auto time = [&](MeshComms& comms, std::int64_t bytes) {
    return measure(
        shm.world(), [&](at::Tensor& x) { comms.gradient().all_reduce(x, ReduceOp::kSum); }, bytes);
  };
  for (std::int64_t bytes = 1024; bytes <= max_bytes; bytes *= 4) {
    Row row{.bytes = bytes, .shm = time(shm, bytes)};
    row.gloo = measure(
        shm.world(),
        [&](at::Tensor& x) {
          std::vector<at::Tensor> list{x};
          gloo->allreduce(list)->wait();
        },
        bytes);
    row.direct = time(direct, bytes);
    row.two_hosts = time(two_hosts, bytes);
    if (rank == 0) print_row(json, setup.ranks, row);
  }
  shm.world().barrier();
}

int run(int ranks, bool json, std::int64_t max_bytes) {
  const Setup setup(ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      run_rank(rank, setup, json, max_bytes);
      std::fflush(stdout);
      ::_exit(0);  // Gloo's threads do not end well
    }
    children.push_back(pid);
  }
  int failed = 0;
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    failed += status != 0;
  }
  for (const char* store : {"", ".direct", ".two"}) std::filesystem::remove(setup.store_path + store);
  return failed;
}

}  // namespace
}  // namespace llmtrain

int main(int argc, char** argv) {
  bool json = false;
  std::int64_t max_mib = 64;
  std::vector<int> ranks = {2, 4};  // even ones
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json")
      json = true;
    else if (word == "--ranks" && i + 1 < argc)
      ranks = {std::atoi(argv[++i])};
    else if (word == "--max-mib" && i + 1 < argc)
      max_mib = std::atoll(argv[++i]);
    else {
      fmt::print(stderr, "usage: allreduce_bench [--ranks N] [--max-mib M] [--json]\n");
      return 2;
    }
  }
  if (!json)
    fmt::print("{:>5}  {:>10}  {:>10} {:>10}  {:>10} {:>10}  {:>10}  {:>10}\n",
               "ranks",
               "bytes",
               "shm ms",
               "best",
               "gloo ms",
               "best",
               "direct ms",
               "2 hosts ms");
  std::fflush(stdout);
  int failed = 0;
  for (const int n : ranks) failed += llmtrain::run(n, json, max_mib << 20);
  return failed == 0 ? 0 : 1;
}
