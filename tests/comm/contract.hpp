#pragma once

#include <memory>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "llmtrain/comm/communicator.hpp"

#include "tests/support/spawn_ranks.hpp"

// What every backend and every stack of decorators owes to its callers: one body that all of them pass.
namespace llmtrain::test {

inline constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kLong, at::kBFloat16, at::kHalf};

// Small whole numbers: exact in every type, so that any order of summation gives the same.
inline at::Tensor ramp(std::int64_t n, int offset, at::ScalarType type) {
  return at::arange(n, at::kLong).remainder(5).add(offset).to(type);
}

inline void require_equal(const at::Tensor& got, const at::Tensor& want, const char* what) {
  require(at::equal(got, want),
          fmt::format("{} of {} over {} elements", what, c10::toString(got.scalar_type()), got.numel()));
}

inline void check_reductions(Communicator& group, std::int64_t n, at::ScalarType type) {
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

inline void check_moves(Communicator& group, std::int64_t n, at::ScalarType type) {
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

inline void check_async(Communicator& group) {
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
inline void check_ring(Communicator& group) {
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
inline void check_messages(Communicator& group) {
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
inline void check_crossing_orders(Communicator& group) {
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

inline void check_contract(Communicator& group) {
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

}  // namespace llmtrain::test
