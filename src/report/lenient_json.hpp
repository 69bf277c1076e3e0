#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

// Values of a JSON object that may or may not be there, or be what they should.
namespace llmtrain::lenient {

using nlohmann::json;

inline const json* find(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

inline std::optional<double> number(const json& object, const char* key) {
  const json* const value = find(object, key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double result = value->get<double>();
  return std::isfinite(result) ? std::optional(result) : std::nullopt;
}

inline std::optional<std::int64_t> integer(const json& object, const char* key) {
  const json* const value = find(object, key);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
    return std::nullopt;
  return value->get<std::int64_t>();
}

inline int small(const json& object, const char* key, int fallback = 0) {
  const auto value = integer(object, key);
  const bool fits =
      value && *value >= std::numeric_limits<int>::min() && *value <= std::numeric_limits<int>::max();
  return fits ? static_cast<int>(*value) : fallback;
}

// A string, or what a number or a list of numbers reads like.
inline std::string text(const json& object, const char* key) {
  const json* const value = find(object, key);
  if (value == nullptr || value->is_null()) return {};
  if (value->is_string()) return value->get<std::string>();
  return value->dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace llmtrain::lenient
