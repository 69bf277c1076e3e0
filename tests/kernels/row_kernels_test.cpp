#include "llmtrain/kernels/row_kernels.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "llmtrain/core/half_floats.hpp"
#include "llmtrain/core/philox.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

// The tables that row_kernels chooses from.
namespace llmtrain {
namespace kernels_baseline {
extern const RowKernels<float> kFloatKernels;
extern const RowKernels<double> kDoubleKernels;
extern const RowKernels<Bf16> kBf16Kernels;
}  // namespace kernels_baseline
}  // namespace llmtrain

namespace {

std::vector<float> numbers(std::size_t n, float spread, std::uint64_t seed = 3) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = spread * (static_cast<float>(philox(seed, i)[0]) * 0x1p-31f - 1.0f);
  return values;
}

float widen(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

}  // namespace

TEST_CASE("row kernels: bf16 rounds to nearest even and keeps NaN and infinity", "[kernels]") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> in = {1.0f,
                                 1.00390625f,
                                 1.01171875f,
                                 -3.14159f,
                                 inf,
                                 -inf,
                                 3.4e38f,
                                 std::nanf(""),
                                 0.0f,
                                 std::bit_cast<float>(0x7F800001u),
                                 std::bit_cast<float>(0x7FFFFFFFu)};
  std::vector<Bf16> out(in.size());
  row_kernels<Bf16>().from_acc(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
  CHECK(widen(out[0]) == 1.0f);
  CHECK(widen(out[1]) == 1.0f);       // halfway, to even
  CHECK(widen(out[2]) == 1.015625f);  // halfway, to even
  CHECK(widen(out[3]) == -3.140625f);
  CHECK(widen(out[4]) == inf);
  CHECK(widen(out[5]) == -inf);
  CHECK(widen(out[6]) == inf);
  CHECK(std::isnan(widen(out[7])));
  CHECK(widen(out[8]) == 0.0f);
  CHECK(std::isnan(widen(out[9])));
  CHECK(std::isnan(widen(out[10])));
}

TEST_CASE("row kernels: activations and their slopes are exact to a few ulps", "[kernels]") {
  const std::int64_t n = 4096;
  auto x = numbers(n, 12.0f);
  x[0] = 0.0f;
  x[1] = 200.0f;
  x[2] = -200.0f;
  const std::vector<float> ones(n, 1.0f);
  for (const Activation act : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh}) {
    std::vector<float> y(n);
    std::vector<float> slope(n);
    std::vector<double> wide(x.begin(), x.end());
    std::vector<double> wide_y(n);
    row_kernels<float>().plain(act, x.data(), y.data(), n);
    row_kernels<float>().plain_backward(act, ones.data(), x.data(), slope.data(), n);
    row_kernels<double>().plain(act, wide.data(), wide_y.data(), n);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      INFO("activation " << static_cast<int>(act) << " at " << x[i]);
      CHECK(std::abs(y[i] - wide_y[i]) < 2e-6 * std::max(1.0, std::abs(wide[i])));
      const double h = 1e-5;
      const std::vector<double> near = {wide[i] - h, wide[i] + h};
      std::vector<double> values(2);
      row_kernels<double>().plain(act, near.data(), values.data(), 2);
      CHECK(std::abs(slope[i] - (values[1] - values[0]) / (2 * h)) < 5e-6);
    }
  }
}

TEST_CASE("row kernels: silu of a NaN is a NaN, of infinities what the limit says", "[kernels]") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {std::nanf(""), inf, -100.0f};
  std::vector<float> y(3);
  row_kernels<float>().plain(Activation::kSilu, x.data(), y.data(), 3);
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == inf);
  CHECK(std::abs(y[2]) < 1e-30f);
}

TEST_CASE("row kernels: cross entropy survives huge logits, and its gradient sums to zero", "[kernels]") {
  const std::int64_t cols = 51;
  auto logits = numbers(3 * cols, 5.0f);
  logits[0] = 1e4f;
  logits[static_cast<std::size_t>(cols) + 1] = -1e4f;
  const std::vector<std::int64_t> labels = {3, 1, -100};
  std::vector<float> grad(3 * cols, 9.0f);
  double loss = 0.0;
  row_kernels<float>().cross_entropy(logits.data(), labels.data(), grad.data(), 3, cols, 0.5f, &loss);
  CHECK(loss > 1.9e4);
  CHECK(loss < 2.1e4);
  for (std::size_t row = 0; row < 3; ++row) {
    double sum = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(cols); ++i) {
      sum += grad[row * cols + i];
      size += std::abs(grad[row * cols + i]);
    }
    CHECK(std::abs(sum) < 1e-6);
    CHECK((size > 0.5) == (row < 2));
  }
}

TEST_CASE("row kernels: cross entropy in two halves of the vocabulary is that of the whole", "[kernels]") {
  constexpr std::int64_t kLeft = 20;
  constexpr std::int64_t kRight = 31;
  const auto logits = numbers(kLeft + kRight, 5.0f);
  for (const std::int64_t label : {3, 20, 50}) {
    std::vector<float> whole(logits.size());
    double loss = 0.0;
    row_kernels<float>().cross_entropy(logits.data(), &label, whole.data(), 1, kLeft + kRight, 0.5f, &loss);

    const std::int64_t left = label < kLeft ? label : -1;
    const std::int64_t right = label < kLeft ? -1 : label - kLeft;
    double a[3], b[3];
    row_kernels<float>().cross_entropy_parts(logits.data(), &left, a, 1, kLeft);
    row_kernels<float>().cross_entropy_parts(logits.data() + kLeft, &right, b, 1, kRight);
    const double top = std::max(a[0], b[0]);
    const double sum = a[1] * std::exp(a[0] - top) + b[1] * std::exp(b[0] - top);
    CHECK(std::log(sum) - (a[2] + b[2] - top) == Approx(loss).epsilon(1e-6));

    const auto largest = static_cast<float>(top);
    const auto scale = static_cast<float>(0.5 / sum);
    std::vector<float> parts(logits.size());
    row_kernels<float>().cross_entropy_gradient(
        logits.data(), &left, &largest, &scale, parts.data(), 1, kLeft, 0.5f);
    row_kernels<float>().cross_entropy_gradient(
        logits.data() + kLeft, &right, &largest, &scale, parts.data() + kLeft, 1, kRight, 0.5f);
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(std::abs(parts[i] - whole[i]) < 1e-7f);
  }
}

TEST_CASE("row kernels: every instruction set computes what plain code computes", "[kernels]") {
  INFO("instruction set " << kernel_instruction_set());
  const std::int64_t rows = 5;
  const std::int64_t cols = 131;
  const auto n = static_cast<std::size_t>(rows * cols);
  const auto x = numbers(n, 2.0f);
  const auto w = numbers(n, 1.0f, 4);
  const auto dy = numbers(n, 1.0f, 5);
  std::vector<std::vector<float>> results;
  for (const RowKernels<float>* kernels : {&row_kernels<float>(), &kernels_baseline::kFloatKernels}) {
    std::vector<float> y(n), dx(n), dw(n, 0.0f), mean(5), rstd(5), db(n, 0.0f);
    kernels->layer_norm(x.data(), w.data(), dy.data(), y.data(), mean.data(), rstd.data(), rows, cols, 1e-5);
    kernels->layer_norm_backward(dy.data(),
                                 x.data(),
                                 w.data(),
                                 mean.data(),
                                 rstd.data(),
                                 dx.data(),
                                 dw.data(),
                                 db.data(),
                                 rows,
                                 cols,
                                 false);
    for (const auto& part : {y, dx, dw, db}) results.push_back(part);
    kernels->rms_norm(x.data(), w.data(), y.data(), rstd.data(), rows, cols, cols, 1e-5);
    kernels->rms_norm_backward(
        dy.data(), cols, x.data(), cols, w.data(), rstd.data(), dx.data(), cols, dw.data(), rows, cols, true);
    for (const auto& part : {y, dx, dw}) results.push_back(part);
    std::vector<float> rotated = x;
    kernels->rotate(rotated.data(), 4, 32, w.data(), dy.data(), -1.0f);
    results.push_back(rotated);
  }
  const std::size_t half = results.size() / 2;
  for (std::size_t k = 0; k < half; ++k)
    for (std::size_t i = 0; i < n; ++i)
      CHECK(std::abs(results[k][i] - results[k + half][i]) < 1e-5f * std::max(1.0f, std::abs(results[k][i])));
}

TEST_CASE("row kernels: fp16 rows are the fp32 rows of the same numbers, rounded once", "[kernels]") {
  const std::int64_t rows = 3;
  const std::int64_t cols = 131;
  const auto n = static_cast<std::size_t>(rows * cols);
  const auto narrowed = [](const std::vector<float>& values) {
    std::vector<Fp16> out(values.size());
    row_kernels<Fp16>().from_acc(values.data(), out.data(), static_cast<std::int64_t>(values.size()));
    return out;
  };
  const auto widened = [](const std::vector<Fp16>& values) {
    std::vector<float> out(values.size());
    row_kernels<Fp16>().to_acc(values.data(), out.data(), static_cast<std::int64_t>(values.size()));
    return out;
  };
  const auto x = narrowed(numbers(n, 300.0f));
  const auto w = narrowed(numbers(static_cast<std::size_t>(cols), 1.0f, 4));
  std::vector<Fp16> y(n);
  std::vector<float> wide_y(n), rstd(3), wide_rstd(3);
  row_kernels<Fp16>().rms_norm(x.data(), w.data(), y.data(), rstd.data(), rows, cols, cols, 1e-5);
  row_kernels<float>().rms_norm(
      widened(x).data(), widened(w).data(), wide_y.data(), wide_rstd.data(), rows, cols, cols, 1e-5);
  CHECK(rstd == wide_rstd);  // squares of 300 are beyond fp16
  CHECK(widened(y) == widened(narrowed(wide_y)));

  const std::vector<float> edges = {65504.0f, 65520.0f, -1e9f, 6e-8f, 2e-8f, 0.0f, std::nanf("")};
  const auto bits = narrowed(edges);
  for (std::size_t i = 0; i < edges.size(); ++i) CHECK(bits[i].bits == fp16_of_float(edges[i]));
}
