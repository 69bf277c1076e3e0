#include "llmtrain/shm/reduce.hpp"

#include <algorithm>
#include <cstring>

#include "llmtrain/core/half_floats.hpp"

// One copy of each loop per instruction set, chosen when the library is loaded. Sanitizers and the
// resolver that chooses do not get along, and speed is not what their builds are for.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define LLMTRAIN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LLMTRAIN_CLONES
#endif
#define LLMTRAIN_INLINE inline __attribute__((always_inline))

namespace llmtrain {
namespace {

// Elements that are accumulated at a time: small enough for the first-level cache.
constexpr std::size_t kBlock = 1024;

struct Sum {
  template <class T>
  static LLMTRAIN_INLINE T apply(T a, T b) {
    return a + b;
  }
};
struct SumWrapping {  // two's complement: an overflow is no undefined behaviour
  static LLMTRAIN_INLINE std::int64_t apply(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
};
struct Max {
  template <class T>
  static LLMTRAIN_INLINE T apply(T a, T b) {
    return (a >= b || a != a) ? a : b;
  }
};

template <class T>
struct Same {
  using Stored = T;
  using Wide = T;
  static LLMTRAIN_INLINE T widen(T x) { return x; }
  static LLMTRAIN_INLINE T narrow(T x) { return x; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Wide = float;
  static LLMTRAIN_INLINE float widen(Stored x) { return float_of_bf16(x); }
  static LLMTRAIN_INLINE Stored narrow(float x) { return bf16_of_float(x); }
};
struct Fp16 {
  using Stored = std::uint16_t;
  using Wide = float;
  static LLMTRAIN_INLINE float widen(Stored x) { return float_of_fp16(x); }
  static LLMTRAIN_INLINE Stored narrow(float x) { return fp16_of_float(x); }
};

template <class Type, class Op>
LLMTRAIN_INLINE void reduce_blocks(
    void* out, void* out2, const void* const* inputs, int num_inputs, std::size_t count) {
  using Stored = typename Type::Stored;
  using Wide = typename Type::Wide;
  alignas(64) Wide sum[kBlock];
  alignas(64) Stored result[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    const Stored* first = static_cast<const Stored*>(inputs[0]) + begin;
    for (std::size_t i = 0; i < n; ++i) sum[i] = Type::widen(first[i]);
    for (int input = 1; input < num_inputs; ++input) {
      const Stored* next = static_cast<const Stored*>(inputs[input]) + begin;
      for (std::size_t i = 0; i < n; ++i) sum[i] = Op::apply(sum[i], Type::widen(next[i]));
    }
    for (std::size_t i = 0; i < n; ++i) result[i] = Type::narrow(sum[i]);
    std::memcpy(static_cast<Stored*>(out) + begin, result, n * sizeof(Stored));
    if (out2 != nullptr) std::memcpy(static_cast<Stored*>(out2) + begin, result, n * sizeof(Stored));
  }
}

#define LLMTRAIN_REDUCTION(name, Type, Op)                                                   \
  LLMTRAIN_CLONES void name(                                                                 \
      void* out, void* out2, const void* const* inputs, int num_inputs, std::size_t count) { \
    reduce_blocks<Type, Op>(out, out2, inputs, num_inputs, count);                           \
  }
LLMTRAIN_REDUCTION(sum_bf16, Bf16, Sum)
LLMTRAIN_REDUCTION(max_bf16, Bf16, Max)
LLMTRAIN_REDUCTION(sum_fp16, Fp16, Sum)
LLMTRAIN_REDUCTION(max_fp16, Fp16, Max)
LLMTRAIN_REDUCTION(sum_fp32, Same<float>, Sum)
LLMTRAIN_REDUCTION(max_fp32, Same<float>, Max)
LLMTRAIN_REDUCTION(sum_fp64, Same<double>, Sum)
LLMTRAIN_REDUCTION(max_fp64, Same<double>, Max)
LLMTRAIN_REDUCTION(sum_int64, Same<std::int64_t>, SumWrapping)
LLMTRAIN_REDUCTION(max_int64, Same<std::int64_t>, Max)

}  // namespace

void reduce_arrays(void* out,
                   void* out2,
                   const void* const* inputs,
                   int num_inputs,
                   std::size_t count,
                   ElementType type,
                   ReduceOp op) {
  const bool sum = op == ReduceOp::kSum;
  switch (type) {
    case ElementType::kBf16: return (sum ? sum_bf16 : max_bf16)(out, out2, inputs, num_inputs, count);
    case ElementType::kFp16: return (sum ? sum_fp16 : max_fp16)(out, out2, inputs, num_inputs, count);
    case ElementType::kFp32: return (sum ? sum_fp32 : max_fp32)(out, out2, inputs, num_inputs, count);
    case ElementType::kFp64: return (sum ? sum_fp64 : max_fp64)(out, out2, inputs, num_inputs, count);
    case ElementType::kInt64: return (sum ? sum_int64 : max_int64)(out, out2, inputs, num_inputs, count);
  }
}

}  // namespace llmtrain
