#include "llmtrain/comm/mesh_comms.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "llmtrain/comm/all_gather_bytes.hpp"
#include "llmtrain/monitor/black_box.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

MeshCommsOptions options_for(const MeshShape& shape, int rank, const std::shared_ptr<ShmRegion>& region) {
  MeshCommsOptions options;
  options.shape = shape;
  options.global_rank = rank;
  options.region = region;
  options.timeout = 10s;
  return options;
}

double sum_of(Communicator& group, double x) {
  at::Tensor tensor = at::full({3}, x, at::kDouble);  // [3]
  group.all_reduce(tensor, ReduceOp::kSum);
  return tensor[2].item<double>();
}

}  // namespace

TEST_CASE("mesh comms: every axis sums over its own group", "[comm]") {
  const MeshShape shape{.pp = 2, .dp = 2, .sp = 2, .tp = 1};
  spawn_ranks(8, [&](int rank, const auto& region) {
    MeshComms comms(options_for(shape, rank, region));
    require(sum_of(comms.world(), 1 << rank) == 255, "world");
    for (const Axis axis : kAxes) {
      double want = 0;
      for (const int member : group_of(shape, axis, rank)) want += 1 << member;
      require(sum_of(comms.axis(axis), 1 << rank) == want, std::string(to_string(axis)));
      require(comms.axis(axis).size() == shape.size(axis), "size");
    }
    double want = 0;
    for (const int member : gradient_group_of(shape, rank)) want += 1 << member;
    require(sum_of(comms.gradient(), 1 << rank) == want, "gradient group");
    comms.world().barrier();
    comms.shutdown();
  });
}

TEST_CASE("mesh comms: one rank needs no shared memory and traces nothing", "[comm]") {
  MeshCommsOptions options;
  MeshComms comms(options);
  CHECK(sum_of(comms.world(), 7) == 7);
  CHECK(sum_of(comms.gradient(), 7) == 7);
  CHECK(all_gather_bytes(comms.world(), "own") == std::vector<std::string>{"own"});
  CHECK(comms.totals().empty());
  CHECK(comms.gradient().size() == 1);
}

TEST_CASE("mesh comms: the gradient group is the dp group when only dp cuts", "[comm]") {
  spawn_ranks(2, [&](int rank, const auto& region) {
    MeshComms comms(options_for({.dp = 2}, rank, region));
    require(&comms.gradient() == &comms.axis(Axis::kData), "one communicator");
    require(comms.gradient().name() == "dp", "name");
  });
}

TEST_CASE("mesh comms: copies of sharded state are neighbours of the gradient group", "[comm]") {
  spawn_ranks(8, [&](int rank, const auto& region) {
    MeshCommsOptions options = options_for({.dp = 4, .tp = 2}, rank, region);
    options.shard_size = 2;
    MeshComms comms(options);
    const int dp = rank / 2;
    const int tp = rank % 2;
    const auto bit = [&](int at) { return 1 << (2 * at + tp); };
    require(sum_of(comms.shards(), 1 << rank) == bit(dp / 2 * 2) + bit(dp / 2 * 2 + 1), "one copy");
    require(sum_of(comms.shard_replicas(), 1 << rank) == bit(dp % 2) + bit(dp % 2 + 2), "the same part");
    require(comms.shards().rank() == dp % 2, "order");
    require(comms.gradient().size() == 4, "gradients are summed over all");
  });
}

TEST_CASE("mesh comms: one copy is shared by the whole gradient group", "[comm]") {
  spawn_ranks(4, [&](int rank, const auto& region) {
    MeshCommsOptions options = options_for({.dp = 4}, rank, region);
    options.shard_size = 4;
    MeshComms comms(options);
    require(&comms.shards() == &comms.gradient(), "one communicator");
    require(comms.shard_replicas().size() == 1, "nobody else has it");
  });
}

TEST_CASE("mesh comms: neighbours of a tp group that share a head are a group", "[comm]") {
  spawn_ranks(8, [&](int rank, const auto& region) {
    MeshCommsOptions options = options_for({.dp = 2, .tp = 4}, rank, region);
    options.tensor_replicas = 2;
    MeshComms comms(options);
    require(comms.tensor_replicas().size() == 2, "two ranks");
    require(comms.tensor_replicas().rank() == rank % 2, "in order");
    require(sum_of(comms.tensor_replicas(), 1 << rank) == 3 << (rank / 2 * 2), "neighbours");
  });
}

TEST_CASE("mesh comms: gradients of a pipeline have a group of their own over the stages", "[comm]") {
  const MeshShape shape{.pp = 3, .dp = 2};
  spawn_ranks(6, [&](int rank, const auto& region) {
    MeshComms comms(options_for(shape, rank, region));
    Communicator& activations = comms.axis(Axis::kPipeline);
    Communicator& gradients = comms.pipeline_gradients();
    require(gradients.name() == "pp_grad" && gradients.size() == 3, "name and size");
    require(gradients.rank() == activations.rank(), "the same order");
    const int stage = gradients.rank();
    // Crossing messages: each group keeps the order of its own.
    at::Tensor x = at::zeros({100'000}, at::kFloat), g = at::zeros({100'000}, at::kFloat);  // [n]
    std::vector<std::unique_ptr<Pending>> pending;
    if (stage > 0) {
      pending.push_back(activations.recv_async(x, stage - 1));
      pending.push_back(gradients.send_async(at::full({100'000}, -rank, at::kFloat), stage - 1));
    }
    if (stage < 2) {
      pending.push_back(gradients.recv_async(g, stage + 1));
      pending.push_back(activations.send_async(at::full({100'000}, rank, at::kFloat), stage + 1));
    }
    for (const auto& message : pending) message->wait();
    if (stage > 0) require(x[99'999].item<float>() == static_cast<float>(rank - 2), "activation");
    if (stage < 2) require(g[99'999].item<float>() == static_cast<float>(-rank - 2), "gradient");
  });
}

TEST_CASE("mesh comms: first and last stage share a tied embedding, and nobody else", "[comm]") {
  const MeshShape shape{.pp = 3, .tp = 2};
  spawn_ranks(6, [&](int rank, const auto& region) {
    MeshCommsOptions options = options_for(shape, rank, region);
    options.tied_embedding = true;
    MeshComms comms(options);
    const bool holder = rank / 2 != 1;
    require(comms.embedding().name() == "embedding", "name");
    require(comms.embedding().size() == (holder ? 2 : 1), "size");
    const double want = holder ? (1 << rank % 2) + (1 << (4 + rank % 2)) : 1 << rank;
    require(sum_of(comms.embedding(), 1 << rank) == want, "members");
  });
  spawn_ranks(2, [&](int rank, const auto& region) {
    MeshComms untied(options_for({.pp = 2}, rank, region));
    require(untied.embedding().size() == 1, "untied");
  });
}

TEST_CASE("mesh comms: bytes of a message are counted by its sender", "[comm]") {
  spawn_ranks(2, [&](int rank, const auto& region) {
    MeshComms comms(options_for({.pp = 2}, rank, region));
    Communicator& group = comms.axis(Axis::kPipeline);
    at::Tensor x = at::zeros({1000}, at::kFloat);  // [1000]
    for (int n = 0; n < 3; ++n) {
      if (rank == 0) {
        group.send(x, 1);
        group.send_async(x, 1)->wait();
      } else {
        group.recv(x, 0);
        group.recv_async(x, 0)->wait();
      }
    }
    const auto totals = comms.totals();
    require(totals.size() == 1 && totals[0].axis == "pp", "one operation");
    require(totals[0].op == (rank == 0 ? "send" : "recv") && totals[0].count == 6, "count");
    require(totals[0].bytes == (rank == 0 ? 24'000 : 0), "bytes");
  });
}

TEST_CASE("mesh comms: byte strings of any length are gathered", "[comm]") {
  spawn_ranks(3, [&](int rank, const auto& region) {
    MeshComms comms(options_for({.dp = 3}, rank, region));
    const auto all = all_gather_bytes(
        comms.world(), std::string(static_cast<std::size_t>(rank) * 1000, static_cast<char>('a' + rank)));
    require(all.size() == 3, "ranks");
    for (int r = 0; r < 3; ++r)
      require(all[static_cast<std::size_t>(r)] ==
                  std::string(static_cast<std::size_t>(r) * 1000, static_cast<char>('a' + r)),
              "string");
    require(all_gather_bytes(comms.world(), "") == std::vector<std::string>(3), "empty strings");
  });
}

TEST_CASE("mesh comms: totals are the closed forms and the black box holds the newest calls", "[comm]") {
  std::array<BlackBox, 2> boxes;
  spawn_ranks(2, [&](int rank, const auto& region) {
    MeshCommsOptions options = options_for({.dp = 2}, rank, region);
    BlackBox& box = boxes[static_cast<std::size_t>(rank)];
    options.black_box = &box;
    MeshComms comms(options);
    at::Tensor gradient = at::zeros({1000}, at::kFloat);  // [1000]
    for (int step = 0; step < 5; ++step) {
      auto pending = comms.gradient().all_reduce_async(gradient, ReduceOp::kSum);
      pending->wait();
      sum_of(comms.world(), 1);
    }
    comms.world().barrier();
    const auto totals = comms.totals();
    require(totals.size() == 3, "dp all_reduce, world all_reduce, world barrier");
    require(totals[0].axis == "dp" && totals[0].op == "all_reduce" && totals[0].count == 5 &&
                totals[0].bytes == 20'000,
            "dp");
    require(totals[1].axis == "world" && totals[1].op == "all_reduce" && totals[1].count == 5 &&
                totals[1].bytes == 120,
            "world");
    require(totals[2].op == "barrier" && totals[2].count == 1 && totals[2].bytes == 0, "barrier");
    require(totals[0].exposed_ms > 0 && comms.exposed_ms() >= totals[0].exposed_ms, "exposed time");
    require(box.num_collectives == 11, "all calls are counted");
    const CollectiveRecord& newest = box.ring[10 % BlackBox::kRingSize];
    require(std::string(newest.op.data()) == "barrier" && std::string(newest.group.data()) == "world",
            "newest call");
    require(box.standing_number == 0, "it stands in no call");
    require(newest.sequence == 6, "numbered within its group");
    require(newest.finished_ns >= newest.started_ns && newest.started_ns > 0, "times");
  });
}

TEST_CASE("mesh comms: a call that never ends stays open in the black box", "[comm]") {
  BlackBox box;
  spawn_ranks(2, [&](int rank, const auto& region) {
    MeshCommsOptions options = options_for({.dp = 2}, rank, region);
    options.timeout = 200ms;
    if (rank == 0) options.black_box = &box;
    MeshComms comms(options);
    if (rank == 1) {
      std::this_thread::sleep_for(600ms);
      return;
    }
    try {
      comms.world().barrier();
      require(false, "no error");
    } catch (const CommError& error) {
      require(error.missing_ranks == std::vector<int>{1}, error.what());
    }
  });
  CHECK(box.num_collectives == 1);
  CHECK(box.ring[0].finished_ns == 0);
  CHECK(box.standing_number == 1);
  CHECK(std::string(box.standing.op.data()) == "barrier");
}
