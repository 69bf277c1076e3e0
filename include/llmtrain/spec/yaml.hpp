#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/spec/diagnostic.hpp"

// YAML text as a tree of plain text in which every value knows where it was written.
//
// Scalars are not typed here: `on`, `1e-4` and `007` stay text until the schema says what they are.
// Refused: a key given twice, keys that are not text, tags, several documents, text that is not UTF-8,
// and anything beyond the limits below. Anchors and aliases work; an alias is a copy.
namespace llmtrain {

struct YamlLimits {
  static constexpr std::size_t kBytes = 1 << 20;
  static constexpr int kDepth = 32;
  static constexpr std::size_t kNodes = 100'000;  // after aliases are expanded
  static constexpr std::size_t kKeys = 1000;      // of one map
};

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  Origin origin;
  std::string text;                // kScalar
  bool quoted = false;             // kScalar: written in quotes, or as a block
  std::vector<YamlNode> items;     // kList
  std::vector<YamlEntry> entries;  // kMap, in the order of the file

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }

  // The value of `key` of a map; null when there is none.
  const YamlNode* find(std::string_view key) const;
  YamlNode* find(std::string_view key);
};

struct YamlEntry {
  std::string key;
  Origin key_origin;
  YamlNode value;
};

YamlNode scalar_node(std::string text, bool quoted = false);
YamlNode map_node();
YamlNode list_node();
// Adds the entry, or replaces its value.
void put(YamlNode& map, std::string_view key, YamlNode value);

// The words for messages: "nothing", "a value", "a list", "a map".
std::string_view to_string(YamlNode::Kind kind);

// An empty document is an empty map. Violations go to `diagnostics`; the tree is then what could be read.
YamlNode parse_yaml(const std::string& text, const std::string& source_name, Diagnostics& diagnostics);

// One value as it may stand after `--set path=`; every value in it has `origin`.
YamlNode parse_yaml_value(const std::string& text, const Origin& origin, Diagnostics& diagnostics);

}  // namespace llmtrain
