#include "llmtrain/sizing/shard_traffic.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

// Segments of 160, 96 and 32 elements; over four ranks they are padded to 256, 128 and 128.
std::vector<ParamSpec> table() {
  const auto param = [](std::string name, std::int64_t numel, SegmentIndex segment) {
    ParamSpec spec;
    spec.name = std::move(name);
    spec.shape = {numel};
    spec.segment = segment;
    return spec;
  };
  return {param("a", 100, 0), param("b", 3, 0), param("c", 96, 1), param("d", 5, 2)};
}

ZeroPlace place(int stage) {
  return {.stage = stage, .rank = 0, .size = 4};
}

}  // namespace

TEST_CASE("shard traffic: by hand for every stage", "[sizing]") {
  constexpr std::int64_t kPadded = 256 + 128 + 128;
  const Traffic norm{1, 8};
  CHECK(step_traffic(table(), DType::kBf16, 3, place(0)) ==
        ShardTraffic{.all_reduce = {3, (160 + 96 + 32) * 4}});
  CHECK(step_traffic(table(), DType::kBf16, 3, place(1)) ==
        ShardTraffic{{}, norm, {3, kPadded * 4}, {3, kPadded / 4 * 2}});
  CHECK(step_traffic(table(), DType::kBf16, 3, place(2)) ==
        ShardTraffic{{}, norm, {9, 3 * kPadded * 4}, {3, kPadded / 4 * 2}});
  // Segment 0 gives way to 2, so each is gathered in every micro-batch; segment 1 stays.
  CHECK(step_traffic(table(), DType::kBf16, 3, place(3)) ==
        ShardTraffic{{}, norm, {9, 3 * kPadded * 4}, {7, (3 * (256 + 128) + 128) / 4 * 2}});
  CHECK(start_traffic(table(), DType::kBf16, place(3)) == Traffic{});
  // Gradients may travel in another type than they are kept in; weights travel as they are.
  CHECK(step_traffic(table(), {DType::kBf16, DType::kBf16}, 3, place(0)) ==
        ShardTraffic{.all_reduce = {3, (160 + 96 + 32) * 2}});
  CHECK(step_traffic(table(), {DType::kFp32, DType::kBf16}, 3, place(2)) ==
        ShardTraffic{{}, norm, {9, 3 * kPadded * 2}, {3, kPadded / 4 * 4}});
  // Own sums go over the copies once.
  ZeroPlace hybrid = place(2);
  hybrid.copies = 2;
  CHECK(step_traffic(table(), DType::kBf16, 3, hybrid).copies == Traffic{3, kPadded / 4 * 4});
  CHECK(start_traffic(table(), DType::kBf16, place(0)) == Traffic{});
  CHECK(start_traffic(table(), DType::kBf16, place(1)) == Traffic{3, kPadded / 4 * 2});
}

TEST_CASE("shard traffic: sharded weights of many blocks are gathered for forward and again for backward",
          "[sizing]") {
  std::vector<ParamSpec> specs;  // embedding, eight blocks, head; 128 elements each
  for (SegmentIndex s = 0; s < 10; ++s) {
    ParamSpec spec;
    spec.name = std::string(1, static_cast<char>('a' + s));
    spec.shape = {128};
    spec.segment = s;
    specs.push_back(spec);
  }
  const auto gathers = [&](std::int64_t accumulation) {
    return step_traffic(specs, DType::kFp32, accumulation, place(3)).all_gather;
  };
  // All ten, and seven blocks again: the last block is still there when its backward comes.
  CHECK(gathers(1) == Traffic{17, 17 * 32 * 4});
  // The next micro-batch finds the first block where the backward before it left it.
  CHECK(gathers(2) == Traffic{17 + 16, (17 + 16) * 32 * 4});
  // A matrix that both ends share stays for the whole step, and block 2 has nobody to give way to at its end.
  specs[9].shape = {128};
  ParamSpec tied = specs[0];
  tied.name = "tied";
  tied.tied_with = "a";
  tied.segment = 9;
  specs.push_back(tied);
  CHECK(gathers(1) == Traffic{17, 17 * 32 * 4});
  CHECK(gathers(2) == Traffic{17 + 14, (17 + 14) * 32 * 4});
}

TEST_CASE("shard traffic: a pipeline stage gathers its own segments, as often as its program loses them",
          "[sizing]") {
  std::vector<ParamSpec> specs;  // a stage with segments 4, 5 and 6; 128 elements each
  for (SegmentIndex s = 4; s < 7; ++s) {
    ParamSpec spec;
    spec.name = std::string(1, static_cast<char>('a' + s));
    spec.shape = {128};
    spec.segment = s;
    specs.push_back(spec);
  }
  StepShape step{.accumulation = 2, .chunks = {{4, 7}}};
  for (const ActionKind kind :
       {ActionKind::kForward, ActionKind::kInputGradient, ActionKind::kWeightGradient})
    for (const int m : {0, 1}) step.program.push_back({kind, 0, m});
  const auto traffic = [&](int stage) { return step_traffic(specs, DType::kFp32, step, place(stage)); };
  // 4 and 6 share a lane. Forward: 4 5 6, 4 6; backward: 4, 6 4.
  CHECK(traffic(3).all_gather == Traffic{8, 8 * 32 * 4});
  CHECK(traffic(3).reduce_scatter == Traffic{6, 6 * 128 * 4});
  CHECK(traffic(1).all_gather == Traffic{3, 3 * 32 * 4});
  CHECK(traffic(1).reduce_scatter == Traffic{3, 3 * 128 * 4});
  ZeroPlace keeps = place(3);
  keeps.keeps_weights = true;
  CHECK(step_traffic(specs, DType::kFp32, step, keeps).all_gather == Traffic{3, 3 * 32 * 4});
  // Its chunks, the other way round: 4 and 5 to 6.
  step.chunks = {{4, 5}, {5, 7}};
  step.program = {{ActionKind::kForward, 0, 0}, {ActionKind::kForward, 1, 0}};
  CHECK(traffic(3).all_gather.calls == 3);
}

TEST_CASE("shard traffic: a bucket bounds what one call takes", "[sizing]") {
  StepShape step{.bucket = 64};
  CHECK(step_traffic(table(), DType::kFp32, step, place(0)).all_reduce ==
        Traffic{3 + 2 + 1, (160 + 96 + 32) * 4});
}

TEST_CASE("shard traffic: one rank sends nothing", "[sizing]") {
  const ZeroPlace alone{.stage = 1, .rank = 0, .size = 1};
  CHECK(step_traffic(table(), DType::kFp32, 2, alone) == ShardTraffic{});
  CHECK(start_traffic(table(), DType::kFp32, alone) == Traffic{});
}

TEST_CASE("memory: sharded masters and moments by hand", "[sizing]") {
  // Of rank 1, elements 64 to 128 of the first buffer hold a[64:100]; 32 to 64 of the others c[32:64] and
  // nothing.
  const ZeroPlace zero{.stage = 1, .rank = 1, .size = 4};
  CHECK(static_memory(table(), DType::kBf16, OptimizerSpec{}, {}, zero) ==
        StaticMemory{512 * 2, 512 * 4, 128 * 4 + 2 * (48 + 32) * 4});
  // Own sums, a lane for segments 0 and 2 and one for segment 1.
  const ZeroPlace gradients{.stage = 2, .rank = 1, .size = 4};
  CHECK(static_memory(table(), DType::kBf16, OptimizerSpec{}, {}, gradients).grads == (128 + 256 + 128) * 4);
  // Kept until the end of the step, all three are whole.
  const ZeroPlace keeps{.stage = 3, .rank = 1, .size = 4, .keeps_weights = true};
  CHECK(static_memory(table(), DType::kBf16, OptimizerSpec{}, {}, keeps).params == (128 + 512) * 2);
  const ZeroPlace weights{.stage = 3, .rank = 1, .size = 4};
  CHECK(static_memory(table(), DType::kBf16, OptimizerSpec{}, {}, weights).params == (128 + 256 + 128) * 2);
}
