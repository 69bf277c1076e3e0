#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

// Element types that specs, checkpoints and tensors share; plain, without libtorch.
namespace llmtrain {

enum class DType { kBf16, kFp16, kFp32, kFp64 };

constexpr std::size_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
    case DType::kFp16: return 2;
    case DType::kFp32: return 4;
    case DType::kFp64: return 8;
  }
  return 0;
}

// The names used in job specs: bf16, fp16, fp32, fp64.
constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return "bf16";
    case DType::kFp16: return "fp16";
    case DType::kFp32: return "fp32";
    case DType::kFp64: return "fp64";
  }
  return "?";
}

}  // namespace llmtrain
