#include "llmtrain/model/rope.hpp"

#include <cmath>
#include <numbers>

#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

// Llama 3: short wavelengths stay, long ones are stretched by the factor, those between are blended.
double scale_llama3(double inverse, const RopeScalingSpec& scaling) {
  const double wavelength = 2.0 * std::numbers::pi / inverse;
  const double original = static_cast<double>(scaling.original_max_position);
  if (wavelength < original / scaling.high_freq_factor) return inverse;
  if (wavelength > original / scaling.low_freq_factor) return inverse / scaling.factor;
  const double smooth = (original / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - smooth) * inverse / scaling.factor + smooth * inverse;
}

template <class T>
void fill(const ModelSpec& model, RopeTables& tables) {
  const std::int64_t positions = tables.cosines.size(0);
  const std::int64_t pairs = tables.cosines.size(1);
  T* cosines = tables.cosines.data_ptr<T>();
  T* sines = tables.sines.data_ptr<T>();
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const double inverse = rope_inverse_frequency(model, pair);
    for (std::int64_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * inverse;
      cosines[position * pairs + pair] = static_cast<T>(std::cos(angle));
      sines[position * pairs + pair] = static_cast<T>(std::sin(angle));
    }
  }
}

}  // namespace

double rope_inverse_frequency(const ModelSpec& model, std::int64_t pair) {
  const double d = static_cast<double>(model.head_dim.value());
  const double inverse = std::pow(model.rope_theta, -2.0 * static_cast<double>(pair) / d);
  switch (model.rope_scaling.type) {
    case RopeScalingKind::kNone: return inverse;
    case RopeScalingKind::kLinear: return inverse / model.rope_scaling.factor;
    case RopeScalingKind::kLlama3: return scale_llama3(inverse, model.rope_scaling);
  }
  return inverse;
}

RopeTables rope_tables(const ModelSpec& model, std::int64_t positions, DType type) {
  const std::int64_t pairs = exact_div(model.head_dim.value(), 2);
  RopeTables tables{.cosines = empty_host({positions, pairs}, type),  // [positions, d/2]
                    .sines = empty_host({positions, pairs}, type)};   // [positions, d/2]
  if (type == DType::kFp64)
    fill<double>(model, tables);
  else
    fill<float>(model, tables);
  return tables;
}

RopeTables position_tables(const ModelSpec& model, std::int64_t positions, DType compute) {
  if (model.position != PositionKind::kRope) return {};
  return rope_tables(model, positions, accumulation_type(compute));
}

}  // namespace llmtrain
