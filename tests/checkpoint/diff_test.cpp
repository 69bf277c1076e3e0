#include "llmtrain/checkpoint/diff.hpp"

#include <cmath>
#include <limits>

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

CheckpointReader saved(MemoryFileSystem& files,
                       const std::string& run,
                       const Sample& sample,
                       const TrainState& state,
                       int world_size = 2,
                       std::int64_t epoch = 0) {
  const auto committed = save(files, target_of(run, state.step, epoch, world_size), sample, state);
  REQUIRE(committed);
  auto reader = CheckpointReader::open(files, committed->path);
  REQUIRE(reader);
  return std::move(reader).value();
}

CheckpointDiff diff(CheckpointReader& a, CheckpointReader& b) {
  auto result = diff_checkpoints(a, b);
  REQUIRE(result);
  return *result;
}

}  // namespace

TEST_CASE("diff: where, when and on how many ranks a run took place does not matter", "[checkpoint]") {
  MemoryFileSystem files;
  auto a = saved(files, "a", make_sample(), make_state());
  TrainState state = make_state();
  state.saved_at = 1;
  state.spec_yaml = "run: {dir: /elsewhere}\n";
  state.layout = {.dp = 1};
  state.cpu = "avx512";
  state.resumed_from_step = 3;
  state.previous = "step-00000003";
  auto b = saved(files, "b", make_sample(), state, 3, 4);
  const CheckpointDiff result = diff(a, b);
  CHECK(result.identical());
  CHECK(result.verdict() == "identical");
  CHECK(result.num_tensors == 6);
}

TEST_CASE("diff: another seed, step, cursor or count is different", "[checkpoint]") {
  MemoryFileSystem files;
  auto a = saved(files, "a", make_sample(), make_state());
  TrainState state = make_state();
  state.seed = 99;
  state.next_sample += 8;
  state.optimizer_steps -= 1;
  state.extra = {{"loss_scale", "1024"}};
  auto b = saved(files, "b", make_sample(), state);
  CHECK(diff(a, b).verdict() ==
        "different: next_sample, seed, optimizer_steps, extra.loss_scale, extra.note");
  auto c = saved(files, "c", make_sample(), make_state(6));
  CHECK(diff(a, c).values[0].name == "step");
}

TEST_CASE("diff: one bit of one element is seen, measured and named", "[checkpoint]") {
  MemoryFileSystem files;
  Sample sample;
  const auto with = [&](std::initializer_list<float> values) {
    Sample made;
    made.add("model.w", DType::kFp32, {static_cast<std::int64_t>(values.size())}, 0);
    std::memcpy(made.bytes[0].data(), values.begin(), made.bytes[0].size());
    return made;
  };
  auto a = saved(files, "a", with({1, -4, 0, 3}), make_state());
  auto b = saved(files, "b", with({1, -4.5, 0, 3}), make_state());
  CheckpointDiff result = diff(a, b);
  REQUIRE(result.tensors.size() == 1);
  CHECK(result.tensors[0].name == "model.w");
  CHECK(result.tensors[0].num_different == 1);
  CHECK(result.tensors[0].max_abs == 0.5);
  CHECK(result.tensors[0].max_rel == 0.125);
  CHECK(result.verdict() == "different: 1 of 1 tensors");

  auto c = saved(files, "c", with({1, -4, -0.0F, 3}), make_state());  // equal numbers, other bits
  result = diff(a, c);
  REQUIRE(result.tensors.size() == 1);
  CHECK(result.tensors[0].num_different == 1);
  CHECK(result.tensors[0].max_abs == 0);
  auto d = saved(files, "d", with({1, -4, std::numeric_limits<float>::quiet_NaN(), 3}), make_state());
  CHECK(std::isinf(diff(a, d).tensors[0].max_abs));
  CHECK(diff(d, d).identical());  // the same not-a-number
  auto e = saved(files, "e", with({1, -4, 0}), make_state());
  CHECK(diff(a, e).tensors[0].problem == "shape [4] and [3]");
  Sample renamed = with({1, -4, 0, 3});
  renamed.infos[0].name = "model.v";
  auto f = saved(files, "f", renamed, make_state());
  result = diff(a, f);
  REQUIRE(result.tensors.size() == 2);
  CHECK(result.tensors[0].problem == "only in the second");
  CHECK(result.tensors[1].problem == "only in the first");
}

TEST_CASE("diff: half-width types are read as what they are", "[checkpoint]") {
  MemoryFileSystem files;
  const auto with = [](DType dtype, std::uint16_t bits) {
    Sample made;
    made.add("model.w", dtype, {}, 0);
    std::memcpy(made.bytes[0].data(), &bits, 2);
    return made;
  };
  auto a = saved(files, "a", with(DType::kBf16, 0x3f80), make_state());  // 1
  auto b = saved(files, "b", with(DType::kBf16, 0x4040), make_state());  // 3
  CHECK(diff(a, b).tensors[0].max_abs == 2);
  auto c = saved(files, "c", with(DType::kFp16, 0x3c00), make_state());  // 1
  auto d = saved(files, "d", with(DType::kFp16, 0xc200), make_state());  // -3
  CHECK(diff(c, d).tensors[0].max_abs == 4);
  auto e = saved(files, "e", with(DType::kFp16, 0x0001), make_state());  // the smallest subnormal
  auto f = saved(files, "f", with(DType::kFp16, 0x0000), make_state());
  CHECK(diff(e, f).tensors[0].max_abs == std::ldexp(1.0, -24));
}
