// shm against Gloo, side by side: all_reduce of fp32 between processes on this host.
//
//   allreduce_bench [--ranks N] [--json] [--max-mib M]
//
// Each size is measured in rounds: a barrier, then calls back to back; the time of a round is the
// slowest rank's, the result is the best and the median of the rounds, per call.
#include <algorithm>
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

void print_row(bool json, int ranks, std::int64_t bytes, const Timing& shm, const Timing& gloo) {
  if (json) {
    fmt::print(
        "{{\"ranks\": {}, \"bytes\": {}, \"shm_ms\": {:.4f}, \"shm_best_ms\": {:.4f}, \"gloo_ms\": {:.4f}, "
        "\"gloo_best_ms\": {:.4f}}}\n",
        ranks,
        bytes,
        shm.median_ms,
        shm.best_ms,
        gloo.median_ms,
        gloo.best_ms);
  } else {
    fmt::print("{:>5}  {:>10}  {:>10.3f} {:>10.3f}  {:>10.3f} {:>10.3f}  {:>6.1f}\n",
               ranks,
               bytes,
               shm.median_ms,
               shm.best_ms,
               gloo.median_ms,
               gloo.best_ms,
               gloo.median_ms / shm.median_ms);
  }
  std::fflush(stdout);
}

void run_rank(int rank, int ranks, int fd, const std::string& store_path, bool json, std::int64_t max_bytes) {
  at::set_num_threads(1);
  MeshCommsOptions options;
  options.shape.dp = ranks;
  options.global_rank = rank;
  options.region = ShmRegion::map(fd, ranks).value();
  options.timeout = std::chrono::seconds(60);
  MeshComms comms(options);
  const auto gloo = make_gloo(store_path, rank, ranks);
  for (std::int64_t bytes = 1024; bytes <= max_bytes; bytes *= 4) {
    const Timing shm = measure(
        comms.world(), [&](at::Tensor& x) { comms.gradient().all_reduce(x, ReduceOp::kSum); }, bytes);
    const Timing other = measure(
        comms.world(),
        [&](at::Tensor& x) {
          std::vector<at::Tensor> list{x};
          gloo->allreduce(list)->wait();
        },
        bytes);
    if (rank == 0) print_row(json, ranks, bytes, shm, other);
  }
  comms.world().barrier();
}

int run(int ranks, bool json, std::int64_t max_bytes) {
  const UniqueFd fd = create_shm_region(ranks).value();
  const std::string store_path =
      std::filesystem::temp_directory_path() / fmt::format("allreduce-bench-{}-{}", ::getpid(), ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      run_rank(rank, ranks, fd.get(), store_path, json, max_bytes);
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
  std::filesystem::remove(store_path);
  return failed;
}

}  // namespace
}  // namespace llmtrain

int main(int argc, char** argv) {
  bool json = false;
  std::int64_t max_mib = 64;
  std::vector<int> ranks = {2, 4};
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
    fmt::print("{:>5}  {:>10}  {:>10} {:>10}  {:>10} {:>10}  {:>6}\n",
               "ranks",
               "bytes",
               "shm ms",
               "best",
               "gloo ms",
               "best",
               "ratio");
  std::fflush(stdout);
  int failed = 0;
  for (const int n : ranks) failed += llmtrain::run(n, json, max_mib << 20);
  return failed == 0 ? 0 : 1;
}
