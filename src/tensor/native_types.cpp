#include "llmtrain/tensor/native_types.hpp"

namespace llmtrain {
namespace {

bool has_bf16_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace

// fp16 counts as never native: what its instructions add up is rounded to fp16 on the way.
bool multiplies_natively(at::ScalarType type) {
  if (type == at::kHalf) return false;
  return type != at::kBFloat16 || has_bf16_instructions();
}

}  // namespace llmtrain
