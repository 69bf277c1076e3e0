#pragma once

#include <cstdint>
#include <type_traits>

// The element-wise and row-wise loops of the network, on plain pointers.
//
// Each kernel works on a range of rows, allocates nothing and starts no thread: the caller splits rows
// over threads. They are compiled once per instruction set; row_kernels<T>() is the table for this CPU.
// T is float, double, Bf16 or Fp16; sums and transcendental functions are in Acc<T> (fp32, or fp64 for fp64).
namespace llmtrain {

// Storage of a bfloat16, and of a half; the same bits as libtorch's types.
struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;

enum class Activation { kSilu, kGelu, kGeluTanh };

template <class T>
struct RowKernels {
  using A = Acc<T>;

  // y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps); rows lie `stride` apart in x and y.
  void (*rms_norm)(const T* x,
                   const T* w,
                   T* y,
                   A* rstd,
                   std::int64_t rows,
                   std::int64_t cols,
                   std::int64_t stride,
                   double eps);
  // dx (+= when add) and dw += sum over rows; rows of dy, x and dx have their own strides.
  void (*rms_norm_backward)(const T* dy,
                            std::int64_t dy_stride,
                            const T* x,
                            std::int64_t x_stride,
                            const T* w,
                            const A* rstd,
                            T* dx,
                            std::int64_t dx_stride,
                            A* dw,
                            std::int64_t rows,
                            std::int64_t cols,
                            bool add);
  void (*layer_norm)(const T* x,
                     const T* w,
                     const T* b,
                     T* y,
                     A* mean,
                     A* rstd,
                     std::int64_t rows,
                     std::int64_t cols,
                     double eps);
  void (*layer_norm_backward)(const T* dy,
                              const T* x,
                              const T* w,
                              const A* mean,
                              const A* rstd,
                              T* dx,
                              A* dw,
                              A* db,
                              std::int64_t rows,
                              std::int64_t cols,
                              bool add);

  // y[f] = act(gate) * up for rows [gate (f), up (f)].
  void (*gated)(Activation act, const T* gate_up, T* y, std::int64_t rows, std::int64_t f);
  // d(gate_up) from dy; may be in place over gate_up.
  void (*gated_backward)(
      Activation act, const T* dy, const T* gate_up, T* d_gate_up, std::int64_t rows, std::int64_t f);
  void (*plain)(Activation act, const T* x, T* y, std::int64_t n);
  void (*plain_backward)(Activation act, const T* dy, const T* x, T* dx, std::int64_t n);

  // Rotates pairs (i, i + d/2) of `heads` neighbouring heads in place; sign -1 is the inverse rotation.
  void (*rotate)(T* x, std::int64_t heads, std::int64_t d, const A* cosines, const A* sines, A sign);

  // logits [rows, cols] in A. Adds -log softmax(label) of every row whose label is not negative to
  // `loss`; with grad, writes seed * (softmax - onehot), zero for other rows;
  // grad may be the memory of logits when the types agree.
  void (*cross_entropy)(const A* logits,
                        const std::int64_t* labels,
                        T* grad,
                        std::int64_t rows,
                        std::int64_t cols,
                        A seed,
                        double* loss);
  // The same in two halves, for ranks that each have the logits of a part of the vocabulary. First, per row:
  // parts = {largest logit, sum of exponentials above it, the label's logit}; a negative label is not among
  // these logits and gives 0.
  void (*cross_entropy_parts)(
      const A* logits, const std::int64_t* labels, double* parts, std::int64_t rows, std::int64_t cols);
  // Then, with every row's largest logit of all parts and scale = seed / sum of all exponentials (0 for a row
  // that does not count): scale * exp(logit - largest), less seed at the label.
  void (*cross_entropy_gradient)(const A* logits,
                                 const std::int64_t* labels,
                                 const A* largest,
                                 const A* scale,
                                 T* grad,
                                 std::int64_t rows,
                                 std::int64_t cols,
                                 A seed);

  void (*to_acc)(const T* x, A* y, std::int64_t n);
  void (*from_acc)(const A* x, T* y, std::int64_t n);
  // y += sum of the rows of x.
  void (*add_rows)(const T* x, A* y, std::int64_t rows, std::int64_t cols, std::int64_t stride);
};

// The best table this CPU can run.
template <class T>
const RowKernels<T>& row_kernels();

// What row_kernels chose: "baseline", "avx2" or "avx512"; results differ between them in the last bits.
const char* kernel_instruction_set();

}  // namespace llmtrain
