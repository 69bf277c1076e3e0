#include <algorithm>
#include <utility>

#include "llmtrain/spec/yaml.hpp"

namespace llmtrain {

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto entry = std::find_if(
      entries.begin(), entries.end(), [key](const YamlEntry& candidate) { return candidate.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(std::as_const(*this).find(key));  // the node itself is not const here
}

YamlNode scalar_node(std::string text, bool quoted) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

YamlNode map_node() {
  YamlNode node;
  node.kind = YamlNode::Kind::kMap;
  return node;
}

YamlNode list_node() {
  YamlNode node;
  node.kind = YamlNode::Kind::kList;
  return node;
}

void put(YamlNode& map, std::string_view key, YamlNode value) {
  if (YamlNode* present = map.find(key)) {
    *present = std::move(value);
    return;
  }
  Origin origin = value.origin;
  map.entries.push_back({std::string(key), std::move(origin), std::move(value)});
}

std::string_view to_string(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::kNull: return "nothing";
    case YamlNode::Kind::kScalar: return "a value";
    case YamlNode::Kind::kList: return "a list";
    case YamlNode::Kind::kMap: return "a map";
  }
  return "?";
}

}  // namespace llmtrain
