#include "llmtrain/sizing/memory.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

// 10 x 10 and 3 elements in segment 0, 32 in segment 1, a tied matrix without storage in segment 2.
std::vector<ParamSpec> table() {
  const auto param =
      [](std::string name, std::vector<std::int64_t> shape, SegmentIndex segment, std::string tied) {
        ParamSpec spec;
        spec.name = std::move(name);
        spec.shape = std::move(shape);
        spec.segment = segment;
        spec.tied_with = std::move(tied);
        return spec;
      };
  return {param("a", {10, 10}, 0, {}),
          param("b", {3}, 0, {}),
          param("c", {4, 8}, 1, {}),
          param("d", {10, 10}, 2, "a")};
}

OptimizerSpec optimizer(OptimizerKind kind, double momentum = 0) {
  OptimizerSpec spec;
  spec.name = kind;
  spec.momentum = momentum;
  return spec;
}

}  // namespace

TEST_CASE("memory: weights, gradients and optimizer state by hand", "[sizing]") {
  // Flat buffers: 128 + 32 + 32 elements. fp32 moments: 112 + 16 + 32; fp64 moments: 104 + 8 + 32.
  const auto adamw = optimizer(OptimizerKind::kAdamW);
  CHECK(static_memory(table(), DType::kFp32, adamw) == StaticMemory{192 * 4, 192 * 4, 2 * 160 * 4});
  CHECK(static_memory(table(), DType::kBf16, adamw) == StaticMemory{192 * 2, 192 * 4, 192 * 4 + 2 * 160 * 4});
  CHECK(with_offloaded_optimizer({1, 2, 3, 0}) == StaticMemory{1, 2, 0, 3});
  CHECK(static_memory(table(), DType::kFp64, adamw) == StaticMemory{192 * 8, 192 * 8, 2 * 144 * 8});
  CHECK(static_memory(table(), DType::kFp32, optimizer(OptimizerKind::kSgd)).optimizer == 0);
  CHECK(static_memory(table(), DType::kFp32, optimizer(OptimizerKind::kSgd, 0.9)).optimizer == 160 * 4);
}

TEST_CASE("traffic: every owning segment once, and the scalars", "[sizing]") {
  CHECK(gradient_traffic(table(), DType::kBf16, 4, 1, 16) == Traffic{3, 192 * 4 + 16});
  CHECK(gradient_traffic(table(), DType::kFp64, 2, 0, 0) == Traffic{2, 192 * 8});
  CHECK(gradient_traffic(table(), DType::kFp32, 1, 1, 16) == Traffic{0, 0});
}
