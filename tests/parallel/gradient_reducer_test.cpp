#include "llmtrain/parallel/gradient_reducer.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

MeshCommsOptions dp_options(int ranks, int rank, const std::shared_ptr<ShmRegion>& region) {
  MeshCommsOptions options;
  options.shape.dp = ranks;
  options.global_rank = rank;
  options.region = region;
  options.timeout = 10s;
  return options;
}

std::vector<at::Tensor> buffers_of(at::ScalarType type) {
  return {at::zeros({1000}, type),
          at::zeros({200'003}, type),
          at::zeros({0}, type),
          at::zeros({17}, type)};  // [n] each
}

}  // namespace

TEST_CASE("gradient reducer: buffers of all ranks are summed in place, step after step", "[parallel]") {
  const int ranks = GENERATE(1, 2, 4);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    spawn_ranks(ranks, [&](int rank, const auto& region) {
      MeshComms comms(dp_options(ranks, rank, region));
      const std::vector<at::Tensor> buffers = buffers_of(type);
      GradientReducer reducer(comms.gradient(), buffers);
      for (int step = 1; step <= 3; ++step) {
        for (int segment = static_cast<int>(buffers.size()) - 1; segment >= 0; --segment) {
          buffers[static_cast<std::size_t>(segment)].fill_(step * (rank + 1) + segment);
          reducer.on_gradient_ready(segment);
        }
        reducer.finish();
        for (std::size_t segment = 0; segment < buffers.size(); ++segment) {
          const double want = step * ranks * (ranks + 1) / 2 + ranks * static_cast<int>(segment);
          require(at::equal(buffers[segment], at::full(buffers[segment].sizes(), want, type)),
                  "sum over ranks");
        }
      }
    });
  }
}

TEST_CASE("gradient reducer: a segment that is forgotten or announced twice is a broken invariant",
          "[parallel]") {
  MeshComms comms(MeshCommsOptions{});
  GradientReducer reducer(comms.gradient(), buffers_of(at::kFloat));
  for (const int segment : {3, 2, 1}) reducer.on_gradient_ready(segment);
  CHECK_THROWS_AS(reducer.finish(), CheckFailure);
  CHECK_THROWS_AS(reducer.on_gradient_ready(3), CheckFailure);
  CHECK_THROWS_AS(reducer.on_gradient_ready(4), CheckFailure);
  CHECK_THROWS_AS(GradientReducer(comms.gradient(), buffers_of(at::kBFloat16)), CheckFailure);
}

TEST_CASE("gradient reducer: a peer that is lost in the middle of backward is named", "[parallel]") {
  const auto began = std::chrono::steady_clock::now();
  spawn_ranks(3, [&](int rank, const auto& region) {
    MeshComms comms(dp_options(3, rank, region));
    GradientReducer reducer(comms.gradient(), buffers_of(at::kFloat));
    reducer.on_gradient_ready(3);
    if (rank == 1) return;  // leaves, as a rank does that unwinds
    for (const int segment : {2, 1, 0}) reducer.on_gradient_ready(segment);
    try {
      reducer.finish();
      require(false, "no error");
    } catch (const CommError& error) {
      require(error.missing_ranks == std::vector<int>{1}, error.what());
    }
  });
  CHECK(std::chrono::steady_clock::now() - began < 8s);  // well before the deadline of the waits
}
