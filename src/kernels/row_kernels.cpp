#include "llmtrain/kernels/row_kernels.hpp"

namespace llmtrain {
namespace {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

InstructionSet detect() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return InstructionSet::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kBaseline;
}

}  // namespace

#define LLMTRAIN_DECLARE_TABLES(isa)              \
  namespace isa {                                 \
  extern const RowKernels<float> kFloatKernels;   \
  extern const RowKernels<double> kDoubleKernels; \
  extern const RowKernels<Bf16> kBf16Kernels;     \
  extern const RowKernels<Fp16> kFp16Kernels;     \
  }
LLMTRAIN_DECLARE_TABLES(kernels_baseline)
LLMTRAIN_DECLARE_TABLES(kernels_avx2)
LLMTRAIN_DECLARE_TABLES(kernels_avx512)
#undef LLMTRAIN_DECLARE_TABLES

#define LLMTRAIN_DEFINE_CHOICE(T, table)                          \
  template <>                                                     \
  const RowKernels<T>& row_kernels<T>() {                         \
    switch (detect()) {                                           \
      case InstructionSet::kAvx512: return kernels_avx512::table; \
      case InstructionSet::kAvx2: return kernels_avx2::table;     \
      case InstructionSet::kBaseline: break;                      \
    }                                                             \
    return kernels_baseline::table;                               \
  }
LLMTRAIN_DEFINE_CHOICE(float, kFloatKernels)
LLMTRAIN_DEFINE_CHOICE(double, kDoubleKernels)
LLMTRAIN_DEFINE_CHOICE(Bf16, kBf16Kernels)
LLMTRAIN_DEFINE_CHOICE(Fp16, kFp16Kernels)
#undef LLMTRAIN_DEFINE_CHOICE

const char* kernel_instruction_set() {
  switch (detect()) {
    case InstructionSet::kAvx512: return "avx512";
    case InstructionSet::kAvx2: return "avx2";
    case InstructionSet::kBaseline: break;
  }
  return "baseline";
}

}  // namespace llmtrain
