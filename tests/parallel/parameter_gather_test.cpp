#include "llmtrain/parallel/parameter_gather.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/tensor/memory_pool.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

constexpr SegmentIndex kSegments = 5;

MeshCommsOptions dp_options(int ranks, int rank, const std::shared_ptr<ShmRegion>& region) {
  MeshCommsOptions options;
  options.shape.dp = ranks;
  options.global_rank = rank;
  options.region = region;
  options.timeout = 10s;
  return options;
}

// Embedding, three blocks and a head, which may borrow the embedding's matrix.
std::vector<ParamSpec> table(bool tied) {
  std::vector<ParamSpec> specs;
  for (SegmentIndex s = 0; s < kSegments; ++s) {
    ParamSpec spec;
    spec.name = std::string(1, static_cast<char>('a' + s));
    spec.shape = {1000 + 100 * s};
    spec.segment = s;
    specs.push_back(spec);
  }
  ParamSpec head;
  head.name = "head";
  head.shape = {1000};
  head.segment = kSegments - 1;
  if (tied) head.tied_with = "a";
  specs.push_back(head);
  return specs;
}

FlatParameters parameters_of(const Communicator& group, int stage, bool tied, DType compute = DType::kFp32) {
  return FlatParameters(
      table(tied), compute, {}, {.stage = stage, .rank = group.rank(), .size = group.size()});
}

// What an update leaves: every rank sets its own part.
void update(FlatParameters& parameters, int value) {
  for (SegmentIndex s = 0; s < kSegments; ++s) {
    at::Tensor own = parameters.segment(s).own_weights;  // [own]
    own.fill_(value + s);
  }
}

void require_whole(const FlatParameters& parameters, SegmentIndex segment, int value) {
  const at::Tensor& weights = parameters.segment(segment).weights;  // [padded numel]
  const at::Tensor want = at::full(weights.sizes(), value + segment, weights.scalar_type());
  require(at::equal(weights, want), "whole weights");
}

}  // namespace

TEST_CASE("parameter gather: after an update weights are whole on every rank", "[parallel]") {
  const int ranks = GENERATE(1, 2, 4);
  const int stage = GENERATE(1, 2);
  const DType compute = GENERATE(DType::kFp32, DType::kBf16);
  spawn_ranks(ranks, [&](int rank, const auto& region) {
    MeshComms comms(dp_options(ranks, rank, region));
    FlatParameters parameters = parameters_of(comms.gradient(), stage, false, compute);
    ParameterGather gather(parameters, comms.gradient());
    for (const int value : {1, 7}) {
      update(parameters, value);
      gather.on_update();
      for (SegmentIndex s = 0; s < kSegments; ++s) require_whole(parameters, s, value);
    }
  });
}

TEST_CASE("parameter gather: a segment is whole when it is acquired, forward and backward, and never stale",
          "[parallel]") {
  const int ranks = GENERATE(1, 2, 4);
  const bool tied = GENERATE(false, true);
  spawn_ranks(ranks, [&](int rank, const auto& region) {
    MeshComms comms(dp_options(ranks, rank, region));
    FlatParameters parameters = parameters_of(comms.gradient(), 3, tied);
    ParameterGather gather(parameters, comms.gradient());
    for (const int value : {1, 7, 3}) {
      update(parameters, value);
      gather.on_update();
      for (int pass = 0; pass < 2; ++pass) {
        for (SegmentIndex s = 0; s < kSegments; ++s) {
          gather.acquire(s, PassDirection::kForward);
          require_whole(parameters, s, value);
        }
        if (tied) require_whole(parameters, 0, value);  // the head reads it too
        for (SegmentIndex s = kSegments - 1; s > 0; --s) {
          gather.acquire(s, PassDirection::kBackward);
          require_whole(parameters, s, value);
        }
      }
    }
  });
}

TEST_CASE("parameter gather: a rank has a part of all and two whole segments, as the allocator counts",
          "[parallel]") {
  install_host_memory_counter();
  const auto live = [](MemoryPool pool) { return host_memory(pool).live_bytes; };
  const std::int64_t before[] = {
      live(MemoryPool::kParameters), live(MemoryPool::kOptimizer), live(MemoryPool::kGradients)};
  const FlatParameters parameters(table(true), DType::kBf16, {}, {.stage = 3, .rank = 1, .size = 4});
  std::int64_t own = 0;
  for (SegmentIndex s = 0; s < kSegments; ++s) own += parameters.segment(s).own_weights.numel();
  // In steps of 128: segment 0, which the head borrows from; the larger of 2 and 4; the larger of 1 and 3.
  constexpr std::int64_t kLanes = 1024 + 1408 + 1408;
  CHECK(own == (1024 + 1152 + 1280 + 1408 + 1408) / 4);
  CHECK(parameters.bytes().weights == (own + kLanes) * 2);
  CHECK(parameters.bytes().masters == own * 4);
  CHECK(parameters.bytes().grads == (own + kLanes) * 4);
  CHECK(live(MemoryPool::kParameters) - before[0] == parameters.bytes().weights);
  CHECK(live(MemoryPool::kOptimizer) - before[1] == parameters.bytes().masters);
  CHECK(live(MemoryPool::kGradients) - before[2] == parameters.bytes().grads);
}
