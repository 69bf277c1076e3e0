#include "llmtrain/optim/grad_norm.hpp"

#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/optim/gradient_scale.hpp"
#include "llmtrain/optim/sgd.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

at::Tensor ramp(std::int64_t n, at::ScalarType type) {
  const at::Tensor t = at::empty({n}, at::kDouble);
  for (std::int64_t i = 0; i < n; ++i)
    t.mutable_data_ptr<double>()[i] = std::sin(0.37 * static_cast<double>(i));
  return t.to(type);
}

}  // namespace

TEST_CASE("grad norm: the sum is exact to fp64 for every length", "[optim]") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble})
    for (const std::int64_t n : {0, 1, 15, 16, 17, 1000, 16384, 16385, 300001}) {
      const at::Tensor x = ramp(n, type);
      const at::Tensor wide = x.to(at::kDouble);
      long double expected = 0;
      for (std::int64_t i = 0; i < n; ++i)
        expected +=
            static_cast<long double>(wide.const_data_ptr<double>()[i]) * wide.const_data_ptr<double>()[i];
      CHECK(sum_of_squares(x) == Approx(static_cast<double>(expected)).epsilon(1e-14));
    }
}

TEST_CASE("grad norm: threads change no bit", "[optim]") {
  const at::Tensor x = ramp(1234567, at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double one = sum_of_squares(x);
  for (const int n : {2, 3, 5}) {
    at::set_num_threads(n);
    CHECK(sum_of_squares(x) == one);
  }
  at::set_num_threads(threads);
}

TEST_CASE("grad norm: one bad element anywhere shows, large ones do not overflow", "[optim]") {
  for (const std::int64_t at : {0, 16, 40000, 99999})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      const at::Tensor x = ramp(100000, at::kFloat);
      x.mutable_data_ptr<float>()[at] = bad;
      CHECK_FALSE(std::isfinite(sum_of_squares(x)));
    }
  CHECK(sum_of_squares(at::full({4}, 3e38, at::kFloat)) == Approx(4 * 9e76).epsilon(1e-6));
}

TEST_CASE("grad norm: a list is added up in order; other types are refused", "[optim]") {
  CHECK(sum_of_squares(std::vector<at::Tensor>{}) == 0);
  CHECK(sum_of_squares({at::full({3}, 2, at::kFloat), at::full({2}, 3, at::kDouble)}) == 30);
  CHECK_THROWS_AS(sum_of_squares(at::zeros({3}, at::kBFloat16)), CheckFailure);
  CHECK_THROWS_AS(sum_of_squares(at::zeros({3, 4}, at::kFloat).t()), CheckFailure);
}

TEST_CASE("gradient scale: the logged norm is the one before clipping", "[optim]") {
  const GradientScale clipped = gradient_scale(25.0, 2.0, 1.0);
  CHECK(clipped.norm == 10.0);
  CHECK(clipped.finite);
  CHECK(clipped.scale == Approx(2.0 * 0.1).epsilon(1e-6));
  const GradientScale small = gradient_scale(25.0, 0.1, 1.0);
  CHECK(small.norm == 0.5);
  CHECK(small.scale == 0.1);
  CHECK(gradient_scale(25.0, 2.0, 0).scale == 2.0);  // clipping is off
}

TEST_CASE("gradient scale: a zero norm is a norm, a non-finite one is a verdict", "[optim]") {
  const GradientScale zero = gradient_scale(0.0, 1.0, 1.0);
  CHECK(zero.norm == 0);
  CHECK(zero.finite);
  CHECK(zero.scale == 1.0);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const GradientScale skip = gradient_scale(bad, 1.0, 1.0);
    CHECK_FALSE(skip.finite);
    CHECK(skip.scale == 0);  // never negative, never NaN
  }
}

TEST_CASE("gradient scale: the mean is over the valid tokens", "[optim]") {
  CHECK(token_correction(64, 64) == 1.0);
  CHECK(token_correction(64, 16) == 4.0);
  CHECK(token_correction(64, 0) == 1.0);
  CHECK_THROWS_AS(token_correction(64, 65), CheckFailure);
  CHECK_THROWS_AS(token_correction(0, 0), CheckFailure);
}

TEST_CASE("gradient scale: with SGD at lr 1 the weights move by exactly the maximum norm", "[optim]") {
  const at::Tensor before = ramp(500, at::kDouble);
  OptimizerSlice slice{"a", before.clone(), {}, ramp(500, at::kDouble) * 7, false};
  slice.master = slice.weight;
  Sgd sgd({}, {slice});
  sgd.step(1.0, gradient_scale(sum_of_squares(slice.grad), 1.0, 0.1).scale);
  CHECK(std::sqrt(sum_of_squares(slice.master - before)) == Approx(0.1).epsilon(1e-6));
}
