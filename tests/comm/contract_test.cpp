#include "tests/comm/contract.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/core/check.hpp"
#include "llmtrain/monitor/black_box.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::check_contract;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

MeshCommsOptions dp_options(int ranks, int rank, const std::shared_ptr<ShmRegion>& region) {
  MeshCommsOptions options;
  options.shape.dp = ranks;
  options.global_rank = rank;
  options.region = region;
  options.timeout = 20s;
  return options;
}

}  // namespace

TEST_CASE("communicator contract: solo", "[comm]") {
  check_contract(*make_solo_communicator("dp"));
}

TEST_CASE("communicator contract: shm, bare and with each decorator", "[comm]") {
  const int ranks = GENERATE(2, 3, 4);
  const bool trace = GENERATE(false, true);
  const bool check = GENERATE(false, true);
  spawn_ranks(ranks, [&](int rank, const auto& region) {
    MeshCommsOptions options = dp_options(ranks, rank, region);
    options.trace = trace;
    options.check_calls = check;
    MeshComms comms(options);
    check_contract(comms.axis(Axis::kData));
    require(comms.totals().empty() == !trace, "totals");
  });
}

TEST_CASE("communicator contract: tensors that cannot be right are refused before anything is sent",
          "[comm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    MeshComms comms(dp_options(2, rank, region));
    Communicator& group = comms.world();
    const auto refused = [](auto&& call) {
      try {
        call();
      } catch (const CheckFailure&) {
        return true;
      }
      return false;
    };
    at::Tensor square = at::zeros({4, 4}, at::kFloat).t();  // [4, 4] transposed
    at::Tensor wrong_type = at::zeros({4}, at::kInt);       // [4]
    at::Tensor four = at::zeros({4}, at::kFloat);           // [4]
    at::Tensor seven = at::zeros({7}, at::kFloat);          // [7]
    at::Tensor eight = at::zeros({8}, at::kDouble);         // [8]
    require(refused([&] { group.all_reduce(square, ReduceOp::kSum); }), "not contiguous");
    require(refused([&] { group.all_reduce(wrong_type, ReduceOp::kSum); }), "int32 sums");
    require(refused([&] { group.all_gather(four, seven); }), "sizes");
    require(refused([&] { group.all_gather(four, eight); }), "types");
    require(refused([&] { group.reduce_scatter(seven, four, ReduceOp::kSum); }), "parts");
    require(refused([&] { group.all_to_all(seven, seven); }), "uneven parts");
    require(refused([&] { group.send(four, rank); }), "to itself");
    require(refused([&] { group.send_async(four, rank); }), "to itself");
    require(refused([&] { group.recv_async(four, 2); }), "from nobody");
    require(refused([&] { group.broadcast(four, 2); }), "no such root");
    group.barrier();  // the group still works
  });
}

TEST_CASE("call check: a different shape of the same size is an error that names both calls", "[comm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    MeshCommsOptions options = dp_options(2, rank, region);
    options.check_calls = true;
    MeshComms comms(options);
    at::Tensor x =
        at::zeros(rank == 0 ? std::vector<std::int64_t>{2, 6} : std::vector<std::int64_t>{3, 4}, at::kFloat);
    std::string message;
    try {
      comms.gradient().all_reduce(x, ReduceOp::kSum);
    } catch (const CommError& error) {
      message = error.what();
    }
    for (const char* word : {"group dp",
                             "call #1",
                             "all_reduce of Float [2, 6] sum",
                             "all_reduce of Float [3, 4] sum",
                             "rank 0",
                             "rank 1"})
      require(message.find(word) != std::string::npos, message);
  });
}

TEST_CASE("call check: both calls are named with the phase that they come from", "[comm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    BlackBox box;
    box.enter(rank == 0 ? Phase::kForward : Phase::kOptimizer);
    MeshCommsOptions options = dp_options(2, rank, region);
    options.check_calls = true;
    options.black_box = &box;
    MeshComms comms(options);
    at::Tensor x = at::zeros({4}, at::kFloat);    // [4]
    comms.world().all_reduce(x, ReduceOp::kSum);  // the same call from two phases is the same call
    std::string message;
    try {
      if (rank == 0)
        comms.world().all_reduce(x, ReduceOp::kMax);
      else
        comms.world().all_reduce(x, ReduceOp::kSum);
    } catch (const CommError& error) {
      message = error.what();
    }
    for (const char* word : {"call #2", "[4] max in phase \"forward\"", "[4] sum in phase \"optimizer\""})
      require(message.find(word) != std::string::npos, message);
  });
}

TEST_CASE("call check: a different operation is an error, not a hang", "[comm]") {
  spawn_ranks(3, [](int rank, const auto& region) {
    MeshCommsOptions options = dp_options(3, rank, region);
    options.check_calls = true;
    MeshComms comms(options);
    at::Tensor x = at::zeros({4}, at::kBFloat16);  // [4]
    std::string message;
    try {
      if (rank == 2)
        comms.world().barrier();
      else
        comms.world().broadcast(x, 1);
    } catch (const CommError& error) {
      message = error.what();
    }
    require(message.find("rank 2 calls barrier") != std::string::npos, message);
    require(message.find("broadcast of BFloat16 [4] from 1") != std::string::npos, message);
  });
}

TEST_CASE("call check: a message of another shape or type is an error that names both ranks", "[comm]") {
  const bool asynchronous = GENERATE(false, true);
  spawn_ranks(4, [&](int rank, const auto& region) {
    MeshCommsOptions options = dp_options(4, rank, region);
    options.shape = {.pp = 2, .dp = 2};
    options.check_calls = true;
    MeshComms comms(options);
    Communicator& pipeline = comms.axis(Axis::kPipeline);      // ranks 1 and 3, 0 and 2
    at::Tensor good = at::zeros({2, 2}, at::kDouble);          // [2, 2]
    at::Tensor sent = at::zeros({16, 64}, at::kFloat);         // [16, 64]
    at::Tensor expected = at::zeros({8, 128}, at::kBFloat16);  // [8, 128]
    if (rank >= 2) {
      pipeline.send_async(good, 0)->wait();
      if (rank == 3) pipeline.send(sent, 0);
      return;
    }
    pipeline.recv(good, 1);
    if (rank == 0) return;
    std::string message;
    try {
      if (asynchronous)
        pipeline.recv_async(expected, 1)->wait();
      else
        pipeline.recv(expected, 1);
    } catch (const CommError& error) {
      message = error.what();
    }
    require(
        message ==
            "message #2 of group pp: rank 3 sends Float [16, 64] to rank 1, which expects BFloat16 [8, 128]",
        message);
  });
}

TEST_CASE("call check: a ring that disagrees about its blocks is told so", "[comm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    MeshCommsOptions options = dp_options(2, rank, region);
    options.check_calls = true;
    MeshComms comms(options);
    const at::Tensor out = at::zeros({4 + rank}, at::kFloat);  // [n]
    at::Tensor in = at::zeros({4}, at::kFloat);                // [4]
    std::string message;
    try {
      comms.world().send_recv_async(out, 1 - rank, in, 1 - rank)->wait();
    } catch (const CommError& error) {
      message = error.what();
    }
    if (rank == 0)
      require(message.find("rank 1 sends Float [5] to rank 0, which expects Float [4]") != std::string::npos,
              message);
    else
      require(message.empty(), message);
  });
}

TEST_CASE("mesh comms: shutdown with a call in flight neither hangs nor waits for the deadline", "[comm]") {
  const auto began = std::chrono::steady_clock::now();
  spawn_ranks(2, [](int rank, const auto& region) {
    MeshCommsOptions options = dp_options(2, rank, region);
    options.timeout = 60s;
    MeshComms comms(options);
    at::Tensor x = at::zeros({4}, at::kFloat);  // [4]
    if (rank == 0) {
      auto pending = comms.gradient().all_reduce_async(x, ReduceOp::kSum);
      std::this_thread::sleep_for(50ms);
      comms.shutdown();
      return;
    }
    std::this_thread::sleep_for(300ms);
    try {
      comms.world().barrier();
      require(false, "no error");
    } catch (const CommError& error) {
      require(error.missing_ranks == std::vector<int>{0}, error.what());
    }
  });
  CHECK(std::chrono::steady_clock::now() - began < 20s);
}

TEST_CASE("mesh comms: shutdown with messages in flight neither hangs nor waits for the deadline", "[comm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    MeshCommsOptions options = dp_options(2, rank, region);
    options.timeout = 20min;
    MeshComms comms(options);
    at::Tensor in = at::zeros({4}, at::kFloat);  // [4]
    std::unique_ptr<Pending> sending, receiving;
    if (rank == 0) {
      sending = comms.gradient().send_async(at::zeros({1'000'000}, at::kFloat), 1);
      receiving = comms.gradient().recv_async(in, 1);
    }
    comms.world().barrier();
    comms.shutdown();
    if (rank == 1) return;
    for (Pending* pending : {sending.get(), receiving.get()}) {
      try {
        pending->wait();
        require(false, "no error");
      } catch (const CommError&) {
      }
    }
  });
}
