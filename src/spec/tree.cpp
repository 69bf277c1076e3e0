#include "llmtrain/spec/tree.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/spec/aliases.hpp"
#include "llmtrain/spec/scalars.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kShown = 100;  // characters of a --set argument that messages repeat

// Parses "[0][1]" behind a key.
bool parse_indexes(std::string_view text, std::vector<PathStep>& steps) {
  while (!text.empty()) {
    const std::size_t end = text.find(']');
    std::uint64_t index = 0;
    if (text[0] != '[' || end == std::string_view::npos ||
        parse_scalar(text.substr(1, end - 1), index) != ScalarFault::kNone)
      return false;
    steps.push_back({"", static_cast<std::size_t>(index)});
    text.remove_prefix(end + 1);
  }
  return true;
}

// The value as it stands at the end of a chain of maps: a.b=c is the tree {a: {b: c}}.
YamlNode wrap(const std::vector<PathStep>& steps, YamlNode value, const Origin& origin) {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    YamlNode map = map_node();
    map.origin = origin;
    map.entries.push_back({step->key, origin, std::move(value)});
    value = std::move(map);
  }
  return value;
}

// Follows the steps of a path with an index, which must exist but for the last key.
YamlNode* descend(YamlNode& root, const std::vector<PathStep>& steps, const Origin& origin) {
  YamlNode* node = &root;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const PathStep& step = steps[i];
    if (step.index) {
      if (!node->is_list() || *step.index >= node->items.size()) return nullptr;
      node = &node->items[*step.index];
      continue;
    }
    if (!node->is_map()) return nullptr;
    YamlNode* child = node->find(step.key);
    if (child == nullptr) {
      if (i + 1 != steps.size()) return nullptr;
      node->entries.push_back({step.key, origin, {}});
      child = &node->entries.back().value;
    }
    node = child;
  }
  return node;
}

}  // namespace

std::optional<std::vector<PathStep>> parse_path(const std::string& path) {
  std::vector<PathStep> steps;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    const std::string part = path.substr(at, end - at);
    const std::size_t bracket = std::min(part.find('['), part.size());
    if (bracket == 0 || steps.size() > YamlLimits::kDepth) return std::nullopt;
    steps.push_back({part.substr(0, bracket), std::nullopt});
    if (!parse_indexes(std::string_view(part).substr(bracket), steps)) return std::nullopt;
    at = end + 1;
  }
  return steps;
}

const YamlNode* find_path(const YamlNode& root, const std::string& path) {
  const auto steps = parse_path(path);
  if (!steps) return nullptr;
  const YamlNode* node = &root;
  for (const PathStep& step : *steps) {
    if (step.index) {
      // One map stands for a list of one.
      if (node->is_list()) {
        node = *step.index < node->items.size() ? &node->items[*step.index] : nullptr;
      } else if (*step.index != 0) {
        node = nullptr;
      }
    } else {
      node = node->find(step.key);
    }
    if (node == nullptr) return nullptr;
  }
  return node;
}

Origin origin_of(const YamlNode& root, const std::string& path) {
  std::string at = path;
  while (true) {
    if (const YamlNode* node = find_path(root, at)) return node->origin;
    const std::size_t cut = at.find_last_of(".[");
    if (cut == std::string::npos) return root.origin;
    at.resize(cut);
  }
}

void merge(YamlNode& base, const YamlNode& over) {
  if (over.kind == YamlNode::Kind::kNull && base.is_map()) return;
  if (!base.is_map() || !over.is_map()) {
    base = over;
    return;
  }
  for (const YamlEntry& entry : over.entries) {
    if (YamlNode* present = base.find(entry.key)) {
      merge(*present, entry.value);
    } else {
      base.entries.push_back(entry);
    }
  }
}

void apply_override(YamlNode& root,
                    const std::string& argument,
                    const std::string& job,
                    Diagnostics& diagnostics) {
  const std::string shown = argument.size() <= kShown ? argument : fmt::format("{:.{}}...", argument, kShown);
  const Origin origin{std::make_shared<const std::string>(fmt::format("{}: --set {}", job, shown)), 0, 0};
  const std::size_t equals = argument.find('=');
  const auto steps = equals == std::string::npos ? std::nullopt : parse_path(argument.substr(0, equals));
  if (!steps) {
    diagnostics.error(
        origin, "", "not an override; write section.field=value, for example optimizer.lr=1e-4");
    return;
  }
  const std::size_t before = diagnostics.error_count();
  YamlNode value = parse_yaml_value(argument.substr(equals + 1), origin, diagnostics);
  if (diagnostics.error_count() != before) return;

  bool has_index = false;
  for (const PathStep& step : *steps) has_index = has_index || step.index.has_value();
  if (!has_index) {
    YamlNode over = wrap(*steps, std::move(value), origin);
    rename_aliases(over, diagnostics);
    merge(root, over);
    return;
  }
  YamlNode* target = descend(root, *steps, origin);
  if (target == nullptr) {
    diagnostics.error(origin,
                      argument.substr(0, equals),
                      "no such item; lists are set whole: a.b=[...], or by an index that exists");
    return;
  }
  merge(*target, value);
}

}  // namespace llmtrain
