#pragma once

#include <string>

#include "llmtrain/spec/describe.hpp"
#include "llmtrain/spec/scalars.hpp"
#include "llmtrain/spec/yaml.hpp"

// One member of a spec as a tree; the inverse of the reader.
namespace llmtrain {

inline YamlNode encode(bool value) {
  return scalar_node(value ? "true" : "false");
}
inline YamlNode encode(int value) {
  return scalar_node(std::to_string(value));
}
inline YamlNode encode(std::int64_t value) {
  return scalar_node(std::to_string(value));
}
inline YamlNode encode(std::uint64_t value) {
  return scalar_node(std::to_string(value));
}
inline YamlNode encode(double value) {
  return scalar_node(format_number(value));
}
inline YamlNode encode(const std::string& value) {
  return scalar_node(value, true);
}
inline YamlNode encode(const Quantity& value) {
  return scalar_node(to_string(value));
}
inline YamlNode encode(const std::vector<std::int64_t>& values) {
  YamlNode list = list_node();
  for (const std::int64_t value : values) list.items.push_back(encode(value));
  return list;
}
inline YamlNode encode(const std::vector<std::string>& values) {
  YamlNode list = list_node();
  for (const std::string& value : values) list.items.push_back(encode(value));
  return list;
}
inline YamlNode encode(const NodeCount& value) {
  return scalar_node(to_string(value));
}
template <NamedEnum E>
YamlNode encode(E value) {
  return scalar_node(std::string(name_of(value)));
}
template <NamedEnum E>
YamlNode encode(const std::vector<E>& values) {
  YamlNode list = list_node();
  for (const E value : values) list.items.push_back(encode(value));
  return list;
}
template <class T>
YamlNode encode(const std::optional<T>& value) {
  return value ? encode(*value) : scalar_node("auto");
}
inline YamlNode encode(const std::array<double, 2>& values) {
  YamlNode list = list_node();
  for (const double value : values) list.items.push_back(encode(value));
  return list;
}
inline YamlNode encode(const std::map<std::string, std::string>& values) {
  YamlNode map = map_node();
  for (const auto& [key, value] : values) put(map, key, encode(value));
  return map;
}

template <class Section>
YamlNode encode_section(const Section& section);

template <class T>
requires(FieldShape<T>::kKind == FieldSchema::Kind::kSection) YamlNode encode(const T& section) {
  return encode_section(section);
}
template <class Section>
YamlNode encode(const std::vector<Section>& sections) {
  YamlNode list = list_node();
  for (const Section& section : sections) list.items.push_back(encode_section(section));
  return list;
}

template <class Section>
YamlNode encode_section(const Section& section) {
  YamlNode map = map_node();
  visit_fields(section,
               [&map](const FieldInfo& info, const auto& member) { put(map, info.name, encode(member)); });
  return map;
}

}  // namespace llmtrain
