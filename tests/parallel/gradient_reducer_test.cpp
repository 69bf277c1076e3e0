#include "llmtrain/parallel/gradient_reducer.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

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

ParamSpec vector_of(std::string name, std::int64_t numel, SegmentIndex segment, std::string tied = {}) {
  ParamSpec spec;
  spec.name = std::move(name);
  spec.shape = {numel};
  spec.segment = segment;
  spec.tied_with = std::move(tied);
  return spec;
}

// Segment 2 owns nothing; of segment 3 some ranks own padding only.
FlatParameters parameters_of(DType type, const Communicator& group, int stage) {
  return FlatParameters({vector_of("a", 1000, 0),
                         vector_of("b", 200'003, 1),
                         vector_of("c", 1000, 2, "a"),
                         vector_of("d", 17, 3)},
                        type,
                        {},
                        {.stage = stage, .rank = group.rank(), .size = group.size()});
}

}  // namespace

TEST_CASE("gradient reducer: gradients of all ranks are summed where they lie, step after step",
          "[parallel]") {
  const int ranks = GENERATE(1, 2, 4);
  const int stage = GENERATE(0, 1, 2);
  for (const DType type : {DType::kFp32, DType::kFp64}) {
    spawn_ranks(ranks, [&](int rank, const auto& region) {
      MeshComms comms(dp_options(ranks, rank, region));
      FlatParameters parameters = parameters_of(type, comms.gradient(), stage);
      GradientReducer reducer(parameters, comms.gradient(), comms.shard_replicas());
      for (int step = 1; step <= 3; ++step) {
        parameters.zero_grads();
        for (int pass = 1; pass <= 2; ++pass)  // the second adds nothing
          for (SegmentIndex segment = 3; segment >= 0; --segment) {
            reducer.prepare(segment);
            at::Tensor grads = parameters.segment(segment).grads;  // [n]
            if (pass == 1) grads.fill_(step * (rank + 1) + segment);
            if (pass == 2 || reducer.reduces_every_pass()) reducer.on_gradient_ready(segment);
          }
        reducer.finish();
        for (SegmentIndex segment = 0; segment < 4; ++segment) {
          const at::Tensor& own = parameters.segment(segment).own_grads;  // [n / ranks]
          const double want = step * ranks * (ranks + 1) / 2 + ranks * segment;
          require(at::equal(own, at::full(own.sizes(), want, own.scalar_type())), "sum over ranks");
        }
      }
    });
  }
}

// Every rank's own sum is rounded once for the way, and the sum over ranks once.
TEST_CASE("gradient reducer: gradients that travel in bf16 come back as their rounded sum", "[parallel]") {
  const int stage = GENERATE(0, 1, 2);
  const int sharers = GENERATE(4, 2);
  spawn_ranks(4, [&](int rank, const auto& region) {
    MeshCommsOptions options = dp_options(4, rank, region);
    options.shard_size = stage > 0 ? sharers : 0;
    MeshComms comms(options);
    FlatParameters parameters({vector_of("a", 1000, 0), vector_of("b", 17, 1)},
                              DType::kFp32,
                              {},
                              {.stage = stage,
                               .rank = comms.shards().rank(),
                               .size = comms.shards().size(),
                               .copies = comms.shard_replicas().size()});
    GradientReducer reducer(parameters, comms.shards(), comms.shard_replicas(), {.wire = DType::kBf16});
    for (SegmentIndex segment : {1, 0}) {
      reducer.prepare(segment);
      at::Tensor grads = parameters.segment(segment).grads;  // [n]
      grads.fill_(1.001);                                    // 1 in bf16
      reducer.on_gradient_ready(segment);
    }
    reducer.finish();
    for (SegmentIndex segment : {1, 0}) {
      const at::Tensor& own = parameters.segment(segment).own_grads;  // [n / ranks]
      require(at::equal(own, at::full(own.sizes(), 4.0, at::kFloat)), "sum of rounded gradients, in fp32");
    }
  });
}

TEST_CASE("gradient reducer: a segment that is forgotten or announced twice is a broken invariant",
          "[parallel]") {
  MeshComms comms(MeshCommsOptions{});
  FlatParameters parameters = parameters_of(DType::kFp32, comms.gradient(), 0);
  GradientReducer reducer(parameters, comms.gradient(), comms.shard_replicas());
  for (const int segment : {3, 2, 1}) reducer.on_gradient_ready(segment);
  CHECK_THROWS_AS(reducer.finish(), CheckFailure);
  CHECK_THROWS_AS(reducer.on_gradient_ready(3), CheckFailure);
  CHECK_THROWS_AS(reducer.on_gradient_ready(4), CheckFailure);
}

TEST_CASE("gradient reducer: a place in another group is a broken invariant", "[parallel]") {
  MeshComms comms(MeshCommsOptions{});
  FlatParameters parameters({vector_of("a", 1000, 0)}, DType::kFp32, {}, {.stage = 1, .rank = 0, .size = 2});
  CHECK_THROWS_AS(GradientReducer(parameters, comms.gradient(), comms.shard_replicas()), CheckFailure);
  CHECK(parameters.segment(0).grads.numel() == 1024);
  CHECK(parameters.segment(0).own_grads.numel() == 512);
}

TEST_CASE("gradient reducer: a peer that is lost in the middle of backward is named", "[parallel]") {
  const auto began = std::chrono::steady_clock::now();
  spawn_ranks(3, [&](int rank, const auto& region) {
    MeshComms comms(dp_options(3, rank, region));
    FlatParameters parameters = parameters_of(DType::kFp32, comms.gradient(), 0);
    GradientReducer reducer(parameters, comms.gradient(), comms.shard_replicas());
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
