// Bodies of the row kernels. Included once per instruction set, with LLMTRAIN_ISA naming the namespace;
// everything has internal linkage, so that no wide instruction leaks into code that other CPUs run.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "llmtrain/core/half_floats.hpp"
#include "llmtrain/kernels/row_kernels.hpp"

namespace llmtrain {
namespace {

inline float load(Bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
inline float load(Fp16 x) { return float_of_fp16(x.bits); }
inline float load(float x) { return x; }
inline double load(double x) { return x; }

inline void store(float& to, float x) { to = x; }
inline void store(double& to, double x) { to = x; }
// Round to nearest even; a NaN stays one.
inline void store(Bf16& to, float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  to.bits = static_cast<std::uint16_t>(nan ? 0x7FC0u : rounded);
}
inline void store(Fp16& to, float x) { to.bits = fp16_of_float(x); }

// exp in plain arithmetic, so that loops vectorise: x = n ln2 + r, polynomial of degree 7 in r, 2^n from
// bits. Relative error below 2e-7; saturates at e^-87 and e^88; a NaN stays one.
inline float fast_exp(float x) {
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kMagic = 12582912.0f;  // 1.5 x 2^23: adding it rounds to a whole number
  float c = x > 88.0f ? 88.0f : x;
  c = c < -87.0f ? -87.0f : c;
  const float shifted = c * kLog2e + kMagic;
  const auto n = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4B400000u);
  const float whole = static_cast<float>(n);
  const float r = (c - whole * kLn2High) - whole * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const float scale = std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
  return x != x ? x : p * scale;
}
inline double fast_exp(double x) { return std::exp(x); }

// Sums and maxima over a row run in 16 lanes that are folded at the end: the order is fixed here, not by
// the compiler, and each lane step is one vector instruction.
constexpr std::int64_t kLanes = 16;

template <class A, class Term>
inline A sum_of(std::int64_t n, Term&& term) {
  A lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (; i < n; ++i) lanes[i % kLanes] += term(i);
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2)
    for (std::int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

template <class A>
inline A max_of(const A* x, std::int64_t n) {
  A lanes[kLanes];
  for (A& lane : lanes) lane = -std::numeric_limits<A>::infinity();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  for (const A lane : lanes) lanes[0] = lane > lanes[0] ? lane : lanes[0];
  return lanes[0];
}

template <class A>
struct ValueSlope {
  A value;  // act(x)
  A slope;  // act'(x)
};

template <class A>
inline ValueSlope<A> silu(A x) {
  const A s = A(1) / (A(1) + fast_exp(-x));
  return {x * s, s * (A(1) + x * (A(1) - s))};
}

template <class A>
inline ValueSlope<A> gelu(A x) {
  const A cdf = A(0.5) * (A(1) + std::erf(x * A(0.70710678118654752440)));
  const A pdf = A(0.39894228040143267794) * fast_exp(A(-0.5) * x * x);
  return {x * cdf, cdf + x * pdf};
}

template <class A>
inline ValueSlope<A> gelu_tanh(A x) {
  constexpr A kRoot = A(0.79788456080286535588);  // sqrt(2 / pi)
  constexpr A kCubic = A(0.044715);
  const A inner = kRoot * (x + kCubic * x * x * x);
  const A t = A(1) - A(2) / (fast_exp(A(2) * inner) + A(1));
  const A slope_inner = kRoot * (A(1) + A(3) * kCubic * x * x);
  return {A(0.5) * x * (A(1) + t), A(0.5) * (A(1) + t) + A(0.5) * x * (A(1) - t * t) * slope_inner};
}

// Calls body(act) with the function of `act`, so that the choice is outside the loop.
template <class A, class Body>
inline void with_activation(Activation act, Body&& body) {
  switch (act) {
    case Activation::kSilu: return body([](A x) { return silu<A>(x); });
    case Activation::kGelu: return body([](A x) { return gelu<A>(x); });
    case Activation::kGeluTanh: return body([](A x) { return gelu_tanh<A>(x); });
  }
}

template <class T>
void rms_norm(const T* x, const T* w, T* y, Acc<T>* rstd, std::int64_t rows, std::int64_t cols,
              std::int64_t stride, double eps) {
  using A = Acc<T>;
  for (std::int64_t row = 0; row < rows; ++row, x += stride, y += stride) {
    const A squares = sum_of<A>(cols, [x](std::int64_t i) { return load(x[i]) * load(x[i]); });
    const A scale = A(1) / std::sqrt(squares / static_cast<A>(cols) + static_cast<A>(eps));
    rstd[row] = scale;
    for (std::int64_t i = 0; i < cols; ++i) store(y[i], load(x[i]) * scale * load(w[i]));
  }
}

template <class T>
void rms_norm_backward(const T* dy, std::int64_t dy_stride, const T* x, std::int64_t x_stride, const T* w,
                       const Acc<T>* rstd, T* dx, std::int64_t dx_stride, Acc<T>* dw, std::int64_t rows,
                       std::int64_t cols, bool add) {
  using A = Acc<T>;
  for (std::int64_t row = 0; row < rows; ++row, dy += dy_stride, x += x_stride, dx += dx_stride) {
    const A scale = rstd[row];
    const A dot = sum_of<A>(cols, [=](std::int64_t i) { return load(dy[i]) * load(w[i]) * load(x[i]); });
    const A pull = dot * scale * scale * scale / static_cast<A>(cols);
    for (std::int64_t i = 0; i < cols; ++i) dw[i] += load(dy[i]) * load(x[i]) * scale;
    if (add) {
      for (std::int64_t i = 0; i < cols; ++i)
        store(dx[i], load(dx[i]) + load(dy[i]) * load(w[i]) * scale - load(x[i]) * pull);
    } else {
      for (std::int64_t i = 0; i < cols; ++i) store(dx[i], load(dy[i]) * load(w[i]) * scale - load(x[i]) * pull);
    }
  }
}

template <class T>
void layer_norm(const T* x, const T* w, const T* b, T* y, Acc<T>* mean, Acc<T>* rstd, std::int64_t rows,
                std::int64_t cols, double eps) {
  using A = Acc<T>;
  for (std::int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
    const A centre = sum_of<A>(cols, [x](std::int64_t i) { return load(x[i]); }) / static_cast<A>(cols);
    const A squares = sum_of<A>(
        cols, [=](std::int64_t i) { return (load(x[i]) - centre) * (load(x[i]) - centre); });
    const A scale = A(1) / std::sqrt(squares / static_cast<A>(cols) + static_cast<A>(eps));
    mean[row] = centre;
    rstd[row] = scale;
    for (std::int64_t i = 0; i < cols; ++i) store(y[i], (load(x[i]) - centre) * scale * load(w[i]) + load(b[i]));
  }
}

template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* w, const Acc<T>* mean, const Acc<T>* rstd, T* dx,
                         Acc<T>* dw, Acc<T>* db, std::int64_t rows, std::int64_t cols, bool add) {
  using A = Acc<T>;
  for (std::int64_t row = 0; row < rows; ++row, dy += cols, x += cols, dx += cols) {
    const A centre = mean[row];
    const A scale = rstd[row];
    const A sum = sum_of<A>(cols, [=](std::int64_t i) { return load(dy[i]) * load(w[i]); });
    const A dot = sum_of<A>(
        cols, [=](std::int64_t i) { return load(dy[i]) * load(w[i]) * (load(x[i]) - centre); });
    const A shift = sum * scale / static_cast<A>(cols);
    const A pull = dot * scale * scale * scale / static_cast<A>(cols);
    for (std::int64_t i = 0; i < cols; ++i) {
      dw[i] += load(dy[i]) * (load(x[i]) - centre) * scale;
      db[i] += load(dy[i]);
    }
    for (std::int64_t i = 0; i < cols; ++i) {
      const A g = load(dy[i]) * load(w[i]) * scale - shift - (load(x[i]) - centre) * pull;
      store(dx[i], add ? load(dx[i]) + g : g);
    }
  }
}

template <class T>
void gated(Activation act, const T* gate_up, T* y, std::int64_t rows, std::int64_t f) {
  with_activation<Acc<T>>(act, [&](auto function) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* gate = gate_up + row * 2 * f;
      const T* up = gate + f;
      T* out = y + row * f;
      for (std::int64_t i = 0; i < f; ++i) store(out[i], function(load(gate[i])).value * load(up[i]));
    }
  });
}

template <class T>
void gated_backward(Activation act, const T* dy, const T* gate_up, T* d_gate_up, std::int64_t rows,
                    std::int64_t f) {
  with_activation<Acc<T>>(act, [&](auto function) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* gate = gate_up + row * 2 * f;
      const T* up = gate + f;
      T* d_gate = d_gate_up + row * 2 * f;
      T* d_up = d_gate + f;
      const T* grad = dy + row * f;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < f; ++i) {
        const auto g = load(grad[i]);
        const auto u = load(up[i]);
        const auto [value, slope] = function(load(gate[i]));
        store(d_gate[i], g * u * slope);
        store(d_up[i], g * value);
      }
    }
  });
}

template <class T>
void plain(Activation act, const T* x, T* y, std::int64_t n) {
  with_activation<Acc<T>>(act, [&](auto function) {
    for (std::int64_t i = 0; i < n; ++i) store(y[i], function(load(x[i])).value);
  });
}

template <class T>
void plain_backward(Activation act, const T* dy, const T* x, T* dx, std::int64_t n) {
  with_activation<Acc<T>>(act, [&](auto function) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) store(dx[i], load(dy[i]) * function(load(x[i])).slope);
  });
}

template <class T>
void rotate(T* x, std::int64_t heads, std::int64_t d, const Acc<T>* cosines, const Acc<T>* sines, Acc<T> sign) {
  using A = Acc<T>;
  const std::int64_t half = d / 2;
  for (std::int64_t head = 0; head < heads; ++head) {
    T* low = x + head * d;
    T* high = low + half;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < half; ++i) {
      const A a = load(low[i]);
      const A b = load(high[i]);
      const A s = sign * sines[i];
      store(low[i], a * cosines[i] - b * s);
      store(high[i], b * cosines[i] + a * s);
    }
  }
}

template <class T>
void cross_entropy(const Acc<T>* logits, const std::int64_t* labels, T* grad, std::int64_t rows,
                   std::int64_t cols, Acc<T> seed, double* loss) {
  using A = Acc<T>;
  for (std::int64_t row = 0; row < rows; ++row, logits += cols) {
    T* out = grad ? grad + row * cols : nullptr;
    if (labels[row] < 0) {
      if (out) std::memset(static_cast<void*>(out), 0, static_cast<std::size_t>(cols) * sizeof(T));
      continue;
    }
    const A top = max_of(logits, cols);
    const A sum = sum_of<A>(cols, [=](std::int64_t i) { return fast_exp(logits[i] - top); });
    *loss += std::log(static_cast<double>(sum)) - static_cast<double>(logits[labels[row]] - top);
    if (!out) continue;
    const A scale = seed / sum;
    const std::int64_t label = labels[row];
    const A at_label = fast_exp(logits[label] - top) * scale - seed;  // before `out` may overwrite it
    for (std::int64_t i = 0; i < cols; ++i) store(out[i], fast_exp(logits[i] - top) * scale);
    store(out[label], at_label);
  }
}

template <class T>
void cross_entropy_parts(const Acc<T>* logits, const std::int64_t* labels, double* parts, std::int64_t rows,
                         std::int64_t cols) {
  using A = Acc<T>;
  for (std::int64_t row = 0; row < rows; ++row, logits += cols, parts += 3) {
    const A top = max_of(logits, cols);
    parts[0] = static_cast<double>(top);
    parts[1] = static_cast<double>(sum_of<A>(cols, [=](std::int64_t i) { return fast_exp(logits[i] - top); }));
    parts[2] = labels[row] < 0 ? 0.0 : static_cast<double>(logits[labels[row]]);
  }
}

template <class T>
void cross_entropy_gradient(const Acc<T>* logits, const std::int64_t* labels, const Acc<T>* largest,
                            const Acc<T>* scale, T* grad, std::int64_t rows, std::int64_t cols, Acc<T> seed) {
  using A = Acc<T>;
  for (std::int64_t row = 0; row < rows; ++row, logits += cols, grad += cols) {
    const A top = largest[row];
    const A factor = scale[row];
    const std::int64_t label = labels[row];
    const A at_label = label < 0 ? A(0) : fast_exp(logits[label] - top) * factor - seed;
    for (std::int64_t i = 0; i < cols; ++i) store(grad[i], fast_exp(logits[i] - top) * factor);
    if (label >= 0) store(grad[label], at_label);
  }
}

template <class T>
void to_acc(const T* x, Acc<T>* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = load(x[i]);
}

template <class T>
void from_acc(const Acc<T>* x, T* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store(y[i], x[i]);
}

template <class T>
void add_rows(const T* x, Acc<T>* y, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row, x += stride)
    for (std::int64_t i = 0; i < cols; ++i) y[i] += load(x[i]);
}

template <class T>
constexpr RowKernels<T> make_table() {
  return {.rms_norm = rms_norm<T>,
          .rms_norm_backward = rms_norm_backward<T>,
          .layer_norm = layer_norm<T>,
          .layer_norm_backward = layer_norm_backward<T>,
          .gated = gated<T>,
          .gated_backward = gated_backward<T>,
          .plain = plain<T>,
          .plain_backward = plain_backward<T>,
          .rotate = rotate<T>,
          .cross_entropy = cross_entropy<T>,
          .cross_entropy_parts = cross_entropy_parts<T>,
          .cross_entropy_gradient = cross_entropy_gradient<T>,
          .to_acc = to_acc<T>,
          .from_acc = from_acc<T>,
          .add_rows = add_rows<T>};
}

}  // namespace

namespace LLMTRAIN_ISA {

extern const RowKernels<float> kFloatKernels;
extern const RowKernels<double> kDoubleKernels;
extern const RowKernels<Bf16> kBf16Kernels;
extern const RowKernels<Fp16> kFp16Kernels;
const RowKernels<float> kFloatKernels = make_table<float>();
const RowKernels<double> kDoubleKernels = make_table<double>();
const RowKernels<Bf16> kBf16Kernels = make_table<Bf16>();
const RowKernels<Fp16> kFp16Kernels = make_table<Fp16>();

}  // namespace LLMTRAIN_ISA
}  // namespace llmtrain
