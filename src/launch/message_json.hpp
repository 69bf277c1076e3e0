#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/hex.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/monitor/events.hpp"

// Structs as JSON objects, by one list of fields each: `list_fields(value, field)` is found by
// argument-dependent lookup and calls field("name", value.name) for every member. Reading is strict and
// bounded.
namespace llmtrain::message_json {

using Json = nlohmann::json;

inline constexpr std::size_t kMaxItems = 4096;
inline constexpr std::size_t kMaxText = 4 << 20;

struct AnyField {
  template <class T>
  void operator()(const char*, T&&) const {}
};
template <class T>
concept Visited = requires(T& value) {
  list_fields(value, AnyField{});
};

template <Visited T>
Json write(const T& value);
template <Visited T>
std::string read(const Json& json, T& value);

// Bytes as hexadecimal digits: JSON text is UTF-8.
template <class Text>
struct Hex {
  Text& bytes;
};
template <class Text>
Hex(Text&) -> Hex<Text>;

template <class Text>
Json write(Hex<Text> hex) {
  return to_hex(hex.bytes);
}
inline Json write(const Event& event) {
  return to_json_line(event);
}
inline Json write(Severity severity) {
  return static_cast<int>(severity);
}
inline Json write(bool value) {
  return value;
}
inline Json write(double value) {
  return value;
}
template <std::integral T>
Json write(T value) {
  return value;
}
inline Json write(const std::string& value) {
  return value;
}
template <class T>
Json write(const std::optional<T>& value) {
  return value ? write(*value) : Json(nullptr);
}
template <class T>
Json write(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(write(value));
  return array;
}

// Readers return what is wrong; empty: nothing.
inline std::string read(const Json& json, bool& value) {
  if (!json.is_boolean()) return "is not true or false";
  value = json.get<bool>();
  return {};
}
inline std::string read(const Json& json, Severity& value) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > static_cast<unsigned>(Severity::kError))
    return "is not a severity";
  value = static_cast<Severity>(json.get<int>());
  return {};
}
inline std::string read(const Json& json, Event& value) {
  if (!json.is_string()) return "is not a text";
  auto event = event_from_json(json.get<std::string>());
  if (!event) return "is no event: " + event.error().message;
  value = std::move(event).value();
  return {};
}
inline std::string read(const Json& json, Hex<std::string> hex) {
  if (!json.is_string()) return "is not a text";
  const auto& digits = json.get_ref<const std::string&>();
  auto bytes = digits.size() <= kMaxText ? from_hex(digits) : std::nullopt;
  if (!bytes) return "is not hexadecimal";
  hex.bytes = std::move(*bytes);
  return {};
}
inline std::string read(const Json& json, double& value) {
  if (!json.is_number()) return "is not a number";
  value = json.get<double>();
  return {};
}
template <std::integral T>
std::string read(const Json& json, T& value) {
  if (!json.is_number_integer()) return "is not an integer";
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<std::uint64_t>())
                                              : std::in_range<T>(json.get<std::int64_t>());
  if (!fits) return "is out of range";
  value = json.get<T>();
  return {};
}
inline std::string read(const Json& json, std::string& value) {
  if (!json.is_string()) return "is not a text";
  value = json.get<std::string>();
  return value.size() > kMaxText ? "is too long" : "";
}
template <class T>
std::string read(const Json& json, std::optional<T>& value) {
  value.reset();
  return json.is_null() ? "" : read(json, value.emplace());
}
template <class T>
std::string read(const Json& json, std::vector<T>& values) {
  if (!json.is_array()) return "is not a list";
  if (json.size() > kMaxItems) return "is too long a list";
  values.clear();
  for (const Json& item : json) {
    T value{};
    if (std::string problem = read(item, value); !problem.empty()) return problem;
    values.push_back(std::move(value));
  }
  return {};
}

template <Visited T>
Json write(const T& value) {
  Json object = Json::object();
  list_fields(value, [&](const char* name, auto&& member) { object[name] = write(member); });
  return object;
}
template <Visited T>
std::string read(const Json& json, T& value) {
  if (!json.is_object()) return "is not an object";
  std::string problem;
  std::size_t known = 0;
  list_fields(value, [&](const char* name, auto&& member) {
    if (!problem.empty()) return;
    const auto found = json.find(name);
    if (found == json.end()) {
      problem = fmt::format("lacks the key `{}`", name);
      return;
    }
    ++known;
    if (const std::string wrong = read(*found, member); !wrong.empty())
      problem = fmt::format("`{}` {}", name, wrong);
  });
  if (problem.empty() && known != json.size()) problem = "has an unknown key";
  return problem;
}

}  // namespace llmtrain::message_json
