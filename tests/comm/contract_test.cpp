#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

// What every backend and every stack of decorators owes to its callers.

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kLong, at::kBFloat16, at::kHalf};

// Small whole numbers: exact in every type, so that any order of summation gives the same.
at::Tensor ramp(std::int64_t n, int offset, at::ScalarType type) {
  return at::arange(n, at::kLong).remainder(5).add(offset).to(type);
}

void require_equal(const at::Tensor& got, const at::Tensor& want, const char* what) {
  require(at::equal(got, want),
          fmt::format("{} of {} over {} elements", what, c10::toString(got.scalar_type()), got.numel()));
}

void check_reductions(Communicator& group, std::int64_t n, at::ScalarType type) {
  const int size = group.size();
  const int rank = group.rank();
  at::Tensor sum = ramp(n, 0, at::kLong).mul(size).add(size * (size - 1) / 2).to(type);  // [n]

  at::Tensor x = ramp(n, rank, type);  // [n]
  group.all_reduce(x, ReduceOp::kSum);
  require_equal(x, sum, "sum");

  x = ramp(n, rank, type);
  group.all_reduce(x, ReduceOp::kMax);
  require_equal(x, ramp(n, size - 1, type), "max");

  at::Tensor parts = ramp(n * size, rank, type);  // [size x n]
  at::Tensor part = at::zeros({n}, type);         // [n]
  group.reduce_scatter(parts, part, ReduceOp::kSum);
  require_equal(
      part,
      ramp(n * size, 0, at::kLong).mul(size).add(size * (size - 1) / 2).to(type).narrow(0, rank * n, n),
      "reduce_scatter");
}

void check_moves(Communicator& group, std::int64_t n, at::ScalarType type) {
  const int size = group.size();
  const int rank = group.rank();
  at::Tensor out = at::zeros({size, n}, type);  // [size, n]
  group.all_gather(ramp(n, rank, type), out);
  for (int r = 0; r < size; ++r) require_equal(out.select(0, r), ramp(n, r, type), "all_gather");

  at::Tensor in = at::zeros({size, n}, type);  // [size, n]
  for (int r = 0; r < size; ++r) in.select(0, r).copy_(ramp(n, 3 * rank + r, type));
  group.all_to_all(in, out);
  for (int r = 0; r < size; ++r) require_equal(out.select(0, r), ramp(n, 3 * r + rank, type), "all_to_all");

  for (int root = 0; root < size; ++root) {
    at::Tensor x = ramp(n, rank, type);  // [n]
    group.broadcast(x, root);
    require_equal(x, ramp(n, root, type), "broadcast");
  }
  if (size == 1) return;
  at::Tensor received = at::zeros({n}, type);  // [n]
  if (rank % 2 == 0 && rank + 1 < size) group.send(ramp(n, rank, type), rank + 1);
  if (rank % 2 == 1) {
    group.recv(received, rank - 1);
    require_equal(received, ramp(n, rank - 1, type), "recv");
  }
}

void check_async(Communicator& group) {
  const int size = group.size();
  std::vector<at::Tensor> data;
  std::vector<std::unique_ptr<Pending>> pending;
  for (int call = 0; call < 20; ++call) {
    data.push_back(at::full({call % 3 == 0 ? 200'000 : 30}, call, at::kDouble));
    pending.push_back(group.all_reduce_async(data.back(), ReduceOp::kSum));
    if (call % 7 == 6) {                             // a blocking call takes its place behind those in flight
      at::Tensor one = at::full({1}, 1, at::kLong);  // [1]
      group.all_reduce(one, ReduceOp::kSum);
      require(one.item<std::int64_t>() == size, "blocking behind asynchronous");
    }
  }
  for (int call = 19; call >= 0; --call) {  // in any order
    pending[static_cast<std::size_t>(call)]->wait();
    const at::Tensor& x = data[static_cast<std::size_t>(call)];
    require_equal(x, at::full(x.sizes(), call * size, at::kDouble), "asynchronous sum");
  }
}

// Blocks that travel once around, one in flight while collectives of the same group wait their turn.
void check_ring(Communicator& group) {
  const int size = group.size();
  const int next = (group.rank() + 1) % size;
  const int previous = (group.rank() + size - 1) % size;
  at::Tensor block = ramp(70'001, group.rank(), at::kDouble);  // [n]
  for (int step = 0; step < size; ++step) {
    at::Tensor arrived = at::zeros_like(block);  // [n]
    const auto pending = group.send_recv_async(block, next, arrived, previous);
    at::Tensor one = at::full({1}, 1, at::kLong);  // [1]
    group.all_reduce(one, ReduceOp::kSum);
    pending->wait();
    block = arrived;
    require_equal(block, ramp(70'001, (group.rank() + size - step - 1) % size, at::kDouble), "ring");
  }
}

// A ring that sends before it receives: one large message, and many that blocking calls take and follow.
void check_messages(Communicator& group) {
  const int size = group.size();
  if (size == 1) return;
  const int next = (group.rank() + 1) % size;
  const int previous = (group.rank() + size - 1) % size;
  constexpr int kMessages = 12;
  std::vector<std::unique_ptr<Pending>> pending;
  std::vector<at::Tensor> received;
  for (int n = 0; n < kMessages; ++n) {
    const std::int64_t elements = n == 0 ? 300'007 : 10 * n;
    pending.push_back(group.send_async(ramp(elements, 20 * group.rank() + n, at::kDouble), next));
  }
  for (int n = 0; n < kMessages; ++n) {
    received.push_back(at::zeros({n == 0 ? 300'007 : 10 * n}, at::kDouble));  // [elements]
    if (n < kMessages - 1)
      pending.push_back(group.recv_async(received.back(), previous));
    else
      group.recv(received.back(), previous);  // behind those in flight
  }
  at::Tensor one = at::full({1}, 1, at::kLong);  // [1]
  group.all_reduce(one, ReduceOp::kSum);
  for (auto it = pending.rbegin(); it != pending.rend(); ++it) (*it)->wait();  // in any order
  for (int n = 0; n < kMessages; ++n) {
    const at::Tensor& x = received[static_cast<std::size_t>(n)];
    require_equal(x, ramp(x.numel(), 20 * previous + n, at::kDouble), "message");
  }
}

// A rank that computes between a message's verb and its wait is not held up by what its peers do meanwhile.
void check_crossing_orders(Communicator& group) {
  if (group.size() == 1) return;
  const int peer = group.rank() ^ 1;
  if (peer >= group.size()) return;
  at::Tensor in = at::zeros({200'000}, at::kFloat);                // [n]
  const at::Tensor out = ramp(200'000, group.rank(), at::kFloat);  // [n]
  const auto receiving = group.recv_async(in, peer);               // the peer sends after it received
  if (group.rank() % 2 == 0) {
    group.send_async(out, peer)->wait();
    receiving->wait();
  } else {
    receiving->wait();
    group.send_async(out, peer)->wait();
  }
  require_equal(in, ramp(200'000, peer, at::kFloat), "crossing messages");
}

void check_contract(Communicator& group) {
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t n : {0, 1, 1000, 100'003}) {
      check_reductions(group, n, type);
      check_moves(group, n, type);
    }
  }
  check_async(group);
  check_ring(group);
  check_messages(group);
  check_crossing_orders(group);
  group.barrier();
}

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
