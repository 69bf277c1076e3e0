#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Element-wise reduction of arrays in a fixed order, the arithmetic under every collective.
//
// out[i] = ((in[0][i] op in[1][i]) op in[2][i]) ...: the bits depend on the order of the inputs alone,
// not on the split into parts nor on the instruction set. bf16 and fp16 are accumulated in fp32 and
// rounded once, to nearest even. A maximum over a NaN is NaN.
namespace llmtrain {

enum class ReduceOp { kSum, kMax };
enum class ElementType : std::uint8_t { kBf16, kFp16, kFp32, kFp64, kInt64 };

constexpr std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::kBf16:
    case ElementType::kFp16: return 2;
    case ElementType::kFp32: return 4;
    case ElementType::kFp64:
    case ElementType::kInt64: return 8;
  }
  return 0;
}

constexpr std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kBf16: return "bf16";
    case ElementType::kFp16: return "fp16";
    case ElementType::kFp32: return "fp32";
    case ElementType::kFp64: return "fp64";
    case ElementType::kInt64: return "int64";
  }
  return "?";
}

constexpr std::string_view to_string(ReduceOp op) {
  return op == ReduceOp::kSum ? "sum" : "max";
}

// Reduces `num_inputs` >= 1 arrays of `count` elements into `out`, and into `out2` unless it is null.
// Outputs may be one of the inputs; they may not overlap one partly.
void reduce_arrays(void* out,
                   void* out2,
                   const void* const* inputs,
                   int num_inputs,
                   std::size_t count,
                   ElementType type,
                   ReduceOp op);

}  // namespace llmtrain
