#include "llmtrain/tensor/bf16.hpp"

namespace llmtrain {

bool has_native_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace llmtrain
