#include "llmtrain/model/rope.hpp"

#include <cmath>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "tests/model/tiny_models.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// Largest error of table[position][pair] against long double angles.
double table_error(const ModelSpec& model, const RopeTables& tables) {
  const at::Tensor cosines = tables.cosines.to(at::kDouble);
  const at::Tensor sines = tables.sines.to(at::kDouble);
  double worst = 0;
  for (std::int64_t position = 0; position < cosines.size(0); ++position) {
    for (std::int64_t pair = 0; pair < cosines.size(1); ++pair) {
      const long double inverse =
          std::pow(static_cast<long double>(model.rope_theta),
                   -2.0L * static_cast<long double>(pair) / static_cast<long double>(model.head_dim.value()));
      const long double angle = static_cast<long double>(position) * inverse;
      const std::int64_t at = position * cosines.size(1) + pair;
      worst =
          std::max(worst, std::abs(cosines.data_ptr<double>()[at] - static_cast<double>(std::cos(angle))));
      worst = std::max(worst, std::abs(sines.data_ptr<double>()[at] - static_cast<double>(std::sin(angle))));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("rope: positions to 8191 do not alias, at both common bases", "[model]") {
  for (const double theta : {10000.0, 500000.0}) {
    ModelSpec model = tiny_llama();
    model.head_dim = 64;
    model.rope_theta = theta;
    const RopeTables tables = rope_tables(model, 8192, DType::kFp32);
    CHECK(table_error(model, tables) < 1e-7);
    const RopeTables cast{.cosines = tables.cosines.to(at::kBFloat16),
                          .sines = tables.sines.to(at::kBFloat16)};
    CHECK(table_error(model, cast) < 0.004);
  }
}

TEST_CASE("rope: scaled frequencies follow their definitions", "[model]") {
  ModelSpec model = tiny_llama();
  model.head_dim = 128;
  model.rope_theta = 500000.0;
  model.rope_scaling = {.type = RopeScalingKind::kLinear, .factor = 4.0};
  CHECK(rope_inverse_frequency(model, 0) == Approx(0.25));
  CHECK(rope_inverse_frequency(model, 64 / 2) == Approx(0.25 / std::sqrt(500000.0)));

  // Llama 3.1's own settings; wavelengths 2 pi / f: kept below 2048, stretched above 8192.
  model.rope_scaling = {.type = RopeScalingKind::kLlama3,
                        .factor = 8.0,
                        .low_freq_factor = 1.0,
                        .high_freq_factor = 4.0,
                        .original_max_position = 8192};
  CHECK(rope_inverse_frequency(model, 0) == 1.0);
  CHECK(rope_inverse_frequency(model, 63) == Approx(std::pow(500000.0, -126.0 / 128.0) / 8.0));
  const double plain = std::pow(500000.0, -66.0 / 128.0);  // wavelength 5457
  const double smooth = (8192.0 / (2.0 * M_PI / plain) - 1.0) / 3.0;
  CHECK(rope_inverse_frequency(model, 33) == Approx((1.0 - smooth) * plain / 8.0 + smooth * plain));
}
