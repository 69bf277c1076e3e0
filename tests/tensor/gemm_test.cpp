#include "llmtrain/tensor/gemm.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

at::Tensor random(std::int64_t rows, std::int64_t cols, at::ScalarType type) {
  return at::randn({rows, cols}, at::TensorOptions().dtype(at::kDouble)).to(type);
}

double error(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace

TEST_CASE("gemm: every mix of types, transposes and scales equals fp64", "[tensor]") {
  struct Mix {
    at::ScalarType in;
    at::ScalarType out;
    double tolerance;
  };
  for (const Mix mix : {Mix{at::kDouble, at::kDouble, 1e-12},
                        Mix{at::kFloat, at::kFloat, 2e-5},
                        Mix{at::kBFloat16, at::kFloat, 2e-5},
                        Mix{at::kBFloat16, at::kBFloat16, 0.3},
                        Mix{at::kHalf, at::kFloat, 2e-5},
                        Mix{at::kHalf, at::kHalf, 0.04}}) {
    for (const bool transposed : {false, true}) {
      const at::Tensor a = transposed ? random(33, 17, mix.in).t() : random(17, 33, mix.in);
      const at::Tensor b = transposed ? random(9, 33, mix.in).t() : random(33, 9, mix.in);
      for (const GemmScale scale : {GemmScale{1, 0}, GemmScale{1, 1}, GemmScale{0.5, 1}, GemmScale{2, 0}}) {
        at::Tensor out = random(17, 9, mix.out);
        const at::Tensor expected =
            scale.beta * out.to(at::kDouble) + scale.alpha * at::mm(a.to(at::kDouble), b.to(at::kDouble));
        gemm(a, b, out, scale);
        CHECK(error(out, expected) < mix.tolerance);
      }
    }
  }
}

TEST_CASE("gemm: beta 0 does not read what was there", "[tensor]") {
  at::Tensor out = at::full({4, 4}, std::numeric_limits<double>::quiet_NaN(), at::kFloat);
  gemm(random(4, 4, at::kBFloat16), random(4, 4, at::kBFloat16), out);
  CHECK_FALSE(out.isnan().any().item<bool>());
}

TEST_CASE("gemm: writes columns of a wider matrix and nothing beside them", "[tensor]") {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor a = random(6, 5, type);
    const at::Tensor b = random(5, 3, type);
    at::Tensor wide = at::full({6, 10}, 7.0, type);
    at::Tensor part = wide.narrow(1, 4, 3);
    gemm(a, b, part);
    CHECK(error(part, at::mm(a.to(at::kDouble), b.to(at::kDouble))) < 0.1);
    CHECK(wide.narrow(1, 0, 4).eq(7.0).all().item<bool>());
    CHECK(wide.narrow(1, 7, 3).eq(7.0).all().item<bool>());
  }
}

TEST_CASE("gemm: many small bf16 products add up in fp32 without being rounded", "[tensor]") {
  at::Tensor sum = at::zeros({1, 1}, at::kFloat);
  const at::Tensor one = at::ones({1, 1}, at::kBFloat16);
  const at::Tensor small = at::full({1, 1}, 1.0 / 1024, at::kBFloat16);
  sum.fill_(1.0);
  for (int i = 0; i < 1024; ++i) gemm(small, one, sum, {.beta = 1.0});
  CHECK(sum.item<float>() == 2.0f);  // in bf16 every addition would have been lost
}

// Gradients of a weight, a sum over 64 micro-batches of 32 tokens: whatever a product of two narrow numbers
// has in digits is in the sum.
TEST_CASE("gemm: a weight gradient over 64 micro-batches loses nothing against fp32", "[tensor]") {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    CAPTURE(c10::toString(type));
    at::Tensor sum = at::zeros({24, 40}, at::kFloat);        // [out, in]
    at::Tensor reference = at::zeros({24, 40}, at::kFloat);  // [out, in] fp32 products of the same operands
    at::Tensor exact = at::zeros({24, 40}, at::kDouble);     // [out, in]
    at::Tensor rounded = at::zeros({24, 40}, type);          // [out, in] what must not happen
    for (int micro_batch = 0; micro_batch < 64; ++micro_batch) {
      const at::Tensor dy = random(32, 24, type) * 1e-3;  // [t, out]
      const at::Tensor x = random(32, 40, type);          // [t, in]
      gemm(dy.t(), x, sum, {.beta = 1.0});
      gemm(dy.to(at::kFloat).t(), x.to(at::kFloat), reference, {.beta = 1.0});
      exact += at::mm(dy.to(at::kDouble).t(), x.to(at::kDouble));
      gemm(dy.t(), x, rounded, {.beta = 1.0});
    }
    const double scale = exact.abs().max().item<double>();
    CHECK(error(sum, reference) <= 1e-6 * scale);
    CHECK(error(sum, exact) <= 3e-6 * scale);
    CHECK(error(rounded, exact) > 1e-4 * scale);
  }
}

TEST_CASE("gemm: shapes that do not fit are refused", "[tensor]") {
  at::Tensor out = at::zeros({4, 4}, at::kFloat);
  CHECK_THROWS_AS(gemm(random(4, 3, at::kFloat), random(4, 4, at::kFloat), out), CheckFailure);
  CHECK_THROWS_AS(gemm(random(4, 4, at::kFloat), random(4, 4, at::kBFloat16), out), CheckFailure);
}
