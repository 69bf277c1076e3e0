#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "llmtrain/placement/parameter_table.hpp"

// First values of a parameter as a pure function of (seed, name, global index).
//
// Every layout therefore builds the same model without a broadcast, and any slice can be made alone,
// by any number of threads. The map: element i takes word i % 4 of philox(key(seed, name), i / 4) as
// u = (word + 1/2) / 2^32, and is std times the normal quantile of u (Wichura's AS 241, with an own
// logarithm). It uses +, -, x, / and sqrt in fp64 only, no libm, so that it is bit-equal on every host;
// the last step rounds to the element type asked for.
namespace llmtrain {

// Key of a parameter's stream of numbers.
std::uint64_t init_key(std::uint64_t seed, std::string_view name);

// Standard normal quantile of u = (word + 1/2) / 2^32; within +-6.4.
double normal_quantile(std::uint32_t word);

// Elements [first, first + out.size()) of the flattened global parameter.
void init_values(const ParamSpec& param, std::uint64_t seed, std::int64_t first, std::span<float> out);
void init_values(const ParamSpec& param, std::uint64_t seed, std::int64_t first, std::span<double> out);

}  // namespace llmtrain
