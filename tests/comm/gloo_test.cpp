#include <atomic>
#include <thread>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/comm/store.hpp"

#include "tests/comm/contract.hpp"
#include "tests/support/catch.hpp"

// Ranks of several hosts, all of them simulated on this one.

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::check_contract;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

// What the ranks of a test share: a store, and a region for every host.
struct Cluster {
  std::vector<int> host_of_rank;
  std::shared_ptr<Store> store = make_memory_store();
  std::vector<std::shared_ptr<ShmRegion>> regions;

  Cluster(int hosts, int ranks_per_host) {
    for (int host = 0; host < hosts; ++host) {
      regions.push_back(ShmRegion::create_private(ranks_per_host).value());
      for (int rank = 0; rank < ranks_per_host; ++rank) host_of_rank.push_back(host);
    }
  }
  int ranks() const { return static_cast<int>(host_of_rank.size()); }

  MeshCommsOptions options(const MeshShape& shape, int rank) const {
    MeshCommsOptions options;
    options.shape = shape;
    options.global_rank = rank;
    options.host_of_rank = host_of_rank;
    options.region = regions[static_cast<std::size_t>(host_of_rank[static_cast<std::size_t>(rank)])];
    options.store = store;
    options.address = "127.0.0.1";
    options.timeout = 20s;
    return options;
  }
};

// Inexact in every type, different for each rank.
at::Tensor fractions(std::int64_t n, int rank, at::ScalarType type) {
  return at::arange(n, at::kDouble).add(1 + 7 * rank).reciprocal().sub(0.01 * rank).to(type);  // [n]
}

std::string failure_of(Communicator& group) {
  try {
    group.barrier();
  } catch (const CommError& error) {
    return fmt::format("{} | {}", error.what(), fmt::join(error.missing_ranks, ","));
  }
  return "";
}

void require_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    require(text.find(word) != std::string::npos, fmt::format("no \"{}\" in: {}", word, text));
}

}  // namespace

TEST_CASE("communicator contract: gloo, each rank on a host of its own", "[comm]") {
  const int ranks = GENERATE(2, 3, 4);
  const bool check = GENERATE(false, true);
  const Cluster cluster(ranks, 1);
  spawn_ranks(ranks, [&](int rank, const auto&) {
    MeshCommsOptions options = cluster.options({.dp = ranks}, rank);
    options.check_calls = check;
    MeshComms comms(options);
    check_contract(comms.axis(Axis::kData));
    comms.world().barrier();
  });
}

TEST_CASE("communicator contract: shared memory inside hosts, gloo between them", "[comm]") {
  const int hosts = GENERATE(2, 3);
  const Cluster cluster(hosts, 2);
  spawn_ranks(cluster.ranks(), [&](int rank, const auto&) {
    MeshComms comms(cluster.options({.dp = cluster.ranks()}, rank));
    check_contract(comms.axis(Axis::kData));
    comms.world().barrier();
  });
}

TEST_CASE("gloo: sums are those of shared memory, bit for bit", "[comm]") {
  constexpr int kRanks = 3;
  const Cluster apart(kRanks, 1);
  spawn_ranks(kRanks, [&](int rank, const auto& region) {
    MeshComms over_gloo(apart.options({.dp = kRanks}, rank));
    MeshComms over_shm({.shape = {.dp = kRanks}, .global_rank = rank, .region = region, .timeout = 20s});
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      for (const std::int64_t n : {5, 3000, 3'000'001}) {
        at::Tensor a = fractions(n, rank, type), b = fractions(n, rank, type);  // [n]
        over_gloo.gradient().all_reduce(a, ReduceOp::kSum);
        over_shm.gradient().all_reduce(b, ReduceOp::kSum);
        require(at::equal(a, b), fmt::format("all_reduce of {} x {}", n, c10::toString(type)));
        const at::Tensor whole = fractions(kRanks * n, rank, type);               // [ranks x n]
        at::Tensor part_a = at::zeros({n}, type), part_b = at::zeros({n}, type);  // [n]
        over_gloo.gradient().reduce_scatter(whole, part_a, ReduceOp::kSum);
        over_shm.gradient().reduce_scatter(whole, part_b, ReduceOp::kSum);
        require(at::equal(part_a, part_b), fmt::format("reduce_scatter of {} x {}", n, c10::toString(type)));
      }
    }
    over_gloo.world().barrier();
  });
}

TEST_CASE("two levels: sums of 16-bit types are rounded once, and all ranks have the same", "[comm]") {
  const Cluster cluster(2, 2);
  spawn_ranks(4, [&](int rank, const auto& region) {
    MeshComms comms(cluster.options({.dp = 4}, rank));
    MeshComms one_host({.shape = {.dp = 4}, .global_rank = rank, .region = region, .timeout = 20s});
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
      at::Tensor x = fractions(100'003, rank, type);  // [n]
      at::Tensor exact = x.to(at::kDouble);           // [n]
      comms.gradient().all_reduce(x, ReduceOp::kSum);
      one_host.gradient().all_reduce(exact, ReduceOp::kSum);
      if (type != at::kFloat) require(at::equal(x, exact.to(type)), c10::toString(type));
      at::Tensor all = at::zeros({4, x.numel()}, type);  // [4, n]
      one_host.gradient().all_gather(x, all);
      for (int r = 0; r < 4; ++r) require(at::equal(all.select(0, r), x), "the same on every rank");
    }
    comms.world().barrier();
  });
}

TEST_CASE("gloo: every axis of a mesh sums over its own group", "[comm]") {
  const Cluster cluster(2, 4);
  const MeshShape shape{.pp = 2, .dp = 2, .tp = 2};
  spawn_ranks(8, [&](int rank, const auto&) {
    MeshComms comms(cluster.options(shape, rank));
    for (const Axis axis : kAxes) {
      double want = 0;
      for (const int member : group_of(shape, axis, rank)) want += 1 << member;
      at::Tensor x = at::full({3}, 1 << rank, at::kDouble);  // [3]
      comms.axis(axis).all_reduce(x, ReduceOp::kSum);
      require(x[2].item<double>() == want, std::string(to_string(axis)));
    }
    comms.world().barrier();
  });
}

TEST_CASE("gloo: a rank that never connects is named", "[comm]") {
  const Cluster cluster(3, 1);
  spawn_ranks(3, [&](int rank, const auto&) {
    if (rank == 1) return;
    MeshCommsOptions options = cluster.options({.dp = 3}, rank);
    options.timeout = 500ms;
    try {
      MeshComms comms(options);
      require(false, "no error");
    } catch (const CommError& error) {
      require(error.missing_ranks == std::vector<int>{1}, error.what());
      require_words(error.what(), {"group world of ranks 0, 1, 2", "did not arrive: rank 1"});
    }
  });
}

TEST_CASE("gloo: a rank that does not come to a call is named when the deadline ends", "[comm]") {
  const Cluster cluster(3, 1);
  std::atomic<int> failures{0};
  spawn_ranks(3, [&](int rank, const auto& region) {
    MeshCommsOptions options = cluster.options({.dp = 3}, rank);
    options.timeout = 1s;
    MeshComms comms(options);
    comms.world().barrier();
    if (rank == 2) {
      while (failures < 2 && region->aborted_by() < 0) std::this_thread::sleep_for(1ms);
      return;
    }
    const std::string failure = failure_of(comms.world());
    ++failures;
    require_words(failure, {"barrier #2 of group world timed out after 1 s", "did not arrive: rank 2 | 2"});
    require(failure_of(comms.world()) == failure, "the group stays broken");
  });
}

TEST_CASE("gloo: a rank that ends is named long before the deadline", "[comm]") {
  const Cluster cluster(2, 1);
  spawn_ranks(2, [&](int rank, const auto&) {
    MeshCommsOptions options = cluster.options({.dp = 2}, rank);
    options.timeout = 10min;
    MeshComms comms(options);
    comms.world().barrier();
    if (rank == 1) return;
    at::Tensor x = at::zeros({4}, at::kFloat);  // [4]
    try {
      comms.world().recv(x, 1);
      require(false, "no error");
    } catch (const CommError& error) {
      require(error.missing_ranks == std::vector<int>{1}, error.what());
      require_words(error.what(), {"recv #1 from rank 1 of group world lost a peer"});
    }
  });
}

TEST_CASE("gloo: cancel ends a wait, and the peers of who cancelled learn of it", "[comm]") {
  const Cluster cluster(2, 1);
  spawn_ranks(2, [&](int rank, const auto&) {
    MeshCommsOptions options = cluster.options({.dp = 2}, rank);
    options.timeout = 10min;
    auto comms = std::make_unique<MeshComms>(options);
    comms->world().barrier();
    if (rank == 1) {
      require_words(failure_of(comms->world()), {"lost a peer", "did not arrive: rank 0 | 0"});
      return;
    }
    at::Tensor x = at::zeros({4}, at::kFloat);  // [4]
    auto never_sent = comms->world().recv_async(x, 1);
    std::thread canceller([&] {
      std::this_thread::sleep_for(50ms);
      comms->world().cancel();
    });
    try {
      never_sent->wait();
      require(false, "no error");
    } catch (const CommError& error) {
      require_words(error.what(), {"was cancelled by its own rank"});
    }
    canceller.join();
    never_sent.reset();
    comms.reset();
  });
}

TEST_CASE("erring communicator: a call that is left out is missed by the others", "[comm]") {
  const Cluster cluster(2, 1);
  spawn_ranks(2, [&](int rank, const auto&) {
    MeshCommsOptions options = cluster.options({.dp = 2}, rank);
    options.timeout = 1s;
    options.call_faults = std::make_shared<CallFaults>();
    MeshComms comms(options);
    comms.world().barrier();
    at::Tensor x = at::ones({4}, at::kFloat);  // [4]
    if (rank == 1) {
      options.call_faults->arm(CallFaults::Kind::kSkip);
      comms.world().all_reduce(x, ReduceOp::kSum);
      require(at::equal(x, at::ones({4}, at::kFloat)), "nothing was added");
      return;
    }
    try {
      comms.world().all_reduce(x, ReduceOp::kSum);
      require(false, "no error");
    } catch (const CommError& error) {
      require(error.missing_ranks == std::vector<int>{1}, error.what());
    }
  });
}

TEST_CASE("erring communicator: a call of another shape is seen by the check of calls", "[comm]") {
  const Cluster cluster(1, 2);
  spawn_ranks(2, [&](int rank, const auto&) {
    MeshCommsOptions options = cluster.options({.dp = 2}, rank);
    options.check_calls = true;
    options.call_faults = std::make_shared<CallFaults>();
    MeshComms comms(options);
    if (rank == 1) options.call_faults->arm(CallFaults::Kind::kWrongShape);
    at::Tensor x = at::ones({4}, at::kFloat);  // [4]
    try {
      comms.world().all_reduce(x, ReduceOp::kSum);
      require(false, "no error");
    } catch (const CommError& error) {
      require_words(error.what(), {"[4]", "[5]"});
    }
  });
}
