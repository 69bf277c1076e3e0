#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/spec/enum_names.hpp"
#include "llmtrain/spec/schema.hpp"

// The schema entry of one member, from its C++ type; shared by the schema and the reader's messages.
namespace llmtrain {

template <class T>
struct FieldShape {
  static constexpr auto kKind = FieldSchema::Kind::kSection;
};

template <>
struct FieldShape<bool> {
  static constexpr auto kKind = FieldSchema::Kind::kFlag;
};
template <>
struct FieldShape<int> {
  static constexpr auto kKind = FieldSchema::Kind::kWhole;
};
template <>
struct FieldShape<std::int64_t> {
  static constexpr auto kKind = FieldSchema::Kind::kWhole;
};
template <>
struct FieldShape<std::uint64_t> {
  static constexpr auto kKind = FieldSchema::Kind::kWhole;
};
template <>
struct FieldShape<double> {
  static constexpr auto kKind = FieldSchema::Kind::kNumber;
};
template <>
struct FieldShape<std::string> {
  static constexpr auto kKind = FieldSchema::Kind::kText;
};
template <>
struct FieldShape<Quantity> {
  static constexpr auto kKind = FieldSchema::Kind::kQuantity;
};
template <>
struct FieldShape<std::array<double, 2>> {
  static constexpr auto kKind = FieldSchema::Kind::kNumbers;
};
template <>
struct FieldShape<std::vector<std::int64_t>> {
  static constexpr auto kKind = FieldSchema::Kind::kWholes;
};
template <>
struct FieldShape<NodeCount> {
  static constexpr auto kKind = FieldSchema::Kind::kNodeCount;
};
template <>
struct FieldShape<std::vector<std::string>> {
  static constexpr auto kKind = FieldSchema::Kind::kTexts;
};
template <>
struct FieldShape<std::map<std::string, std::string>> {
  static constexpr auto kKind = FieldSchema::Kind::kTextMap;
};
template <NamedEnum E>
struct FieldShape<E> {
  static constexpr auto kKind = FieldSchema::Kind::kWord;
};
template <class T>
struct FieldShape<std::optional<T>> : FieldShape<T> {};
template <class T>
struct FieldShape<std::vector<T>> {
  static constexpr auto kKind = FieldSchema::Kind::kSections;
};

template <NamedEnum E>
struct FieldShape<std::vector<E>> {
  static constexpr auto kKind = FieldSchema::Kind::kWords;
};

// Splits "a|b|c".
std::vector<std::string_view> split_words(const char* words);

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
struct OptionalValue {
  using Type = T;
};
template <class T>
struct OptionalValue<std::optional<T>> {
  using Type = T;
};

// Name, documentation, kind, limits and words of a member of type T; not its default or inner fields.
template <class T>
FieldSchema describe(const FieldInfo& info) {
  using Value = typename OptionalValue<T>::Type;
  FieldSchema field;
  field.name = info.name;
  field.doc = info.doc;
  field.kind = FieldShape<T>::kKind;
  field.can_be_auto = kIsOptional<T>;
  field.allowed = info.allowed;
  if constexpr (std::integral<Value> && !std::same_as<Value, bool>) {
    using Limits = std::numeric_limits<Value>;
    field.allowed.min = std::max(field.allowed.min, static_cast<double>(Limits::min()));
    field.allowed.max = std::min(field.allowed.max, static_cast<double>(Limits::max()));
  }
  if constexpr (NamedEnum<Value>)
    for (const auto& [word, value] : EnumNames<Value>::kAll) field.words.push_back(word);
  if constexpr (FieldShape<T>::kKind == FieldSchema::Kind::kWords)
    for (const auto& [word, value] : EnumNames<typename Value::value_type>::kAll) field.words.push_back(word);
  if (info.allowed.words != nullptr) field.words = split_words(info.allowed.words);
  return field;
}

}  // namespace llmtrain
