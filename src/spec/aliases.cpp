#include "llmtrain/spec/aliases.hpp"

#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace llmtrain {
namespace {

std::string_view section_of(std::string_view path) {
  return path.substr(0, path.rfind('.'));
}
bool has_dot(std::string_view path) {
  return path.find('.') != std::string_view::npos;
}

// The canonical path of `key` in `section` (empty = top level) when it is an alias.
std::optional<std::string_view> canonical(std::string_view section, const std::string& key) {
  const std::string path = section.empty() ? key : fmt::format("{}.{}", section, key);
  for (const Alias& alias : aliases())
    if (alias.from == path) return alias.to;
  if (section.empty()) return std::nullopt;
  for (const Alias& alias : aliases())
    if (alias.from == key && has_dot(alias.to) && section_of(alias.to) == section) return alias.to;
  return std::nullopt;
}

class Renamer {
 public:
  Renamer(YamlNode& root, Diagnostics& diagnostics) : root_(root), diagnostics_(diagnostics) {}

  void run() {
    for (const Alias& alias : aliases()) rename_exact(alias);
    visit(root_, "");
    for (YamlEntry& entry : root_.entries) {
      if (!entry.value.is_map()) continue;
      visit(entry.value, entry.key);
      if (YamlNode* scaling = entry.value.find("rope_scaling"); scaling != nullptr && entry.key == "model")
        visit(*scaling, "model.rope_scaling");
    }
    place_moved();
  }

 private:
  struct Moved {
    YamlEntry entry;
    std::string from;
    std::string to;
  };

  // Aliases with a dot ("training.seq_len") come first: their section may itself be renamed.
  void rename_exact(const Alias& alias) {
    const std::size_t dot = alias.from.find('.');
    if (dot == std::string_view::npos || alias.from.find('.', dot + 1) != std::string_view::npos) return;
    YamlNode* section = root_.find(alias.from.substr(0, dot));
    if (section == nullptr) return;
    for (std::size_t i = 0; i < section->entries.size(); ++i) {
      if (section->entries[i].key != alias.from.substr(dot + 1)) continue;
      take(*section, i, std::string(alias.from), alias.to);
      break;
    }
    if (section->is_map() && section->entries.empty())
      std::erase_if(root_.entries, [section](const YamlEntry& entry) { return &entry.value == section; });
  }

  void visit(YamlNode& section, const std::string& path) {
    for (std::size_t i = 0; i < section.entries.size();) {
      const std::string key = section.entries[i].key;
      const auto to = canonical(path, key);
      if (to) {
        take(section, i, path.empty() ? key : path + "." + key, *to);
      } else {
        ++i;
      }
    }
  }

  void take(YamlNode& section, std::size_t index, std::string from, std::string_view to) {
    moved_.push_back({std::move(section.entries[index]), std::move(from), std::string(to)});
    section.entries.erase(section.entries.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void place_moved() {
    // A renamed section may hold aliases of its own.
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      const std::string section = moved_[i].to;
      if (has_dot(section) || !moved_[i].entry.value.is_map()) continue;
      YamlNode inner = std::move(moved_[i].entry.value);
      visit(inner, section);
      moved_[i].entry.value = std::move(inner);
    }
    for (Moved& moved : moved_) place(moved);
  }

  void place(Moved& moved) {
    diagnostics_.warning(moved.entry.key_origin, moved.from, "read as " + moved.to);
    YamlNode* section = &root_;
    std::string_view rest = moved.to;
    while (has_dot(rest)) {
      const std::string_view key = rest.substr(0, rest.find('.'));
      if (section->find(key) == nullptr) {
        YamlNode map = map_node();
        map.origin = moved.entry.value.origin;
        put(*section, key, std::move(map));
      }
      section = section->find(key);
      if (section->kind == YamlNode::Kind::kNull) section->kind = YamlNode::Kind::kMap;
      if (!section->is_map()) return;  // the reader refuses it
      rest.remove_prefix(key.size() + 1);
    }
    add(*section, rest, moved);
  }

  void add(YamlNode& section, std::string_view key, Moved& moved) {
    YamlNode* present = section.find(key);
    if (present == nullptr) {
      section.entries.push_back({std::string(key), moved.entry.key_origin, std::move(moved.entry.value)});
    } else if (present->is_map() && moved.entry.value.is_map()) {
      for (YamlEntry& inner : moved.entry.value.entries) {
        Moved one{std::move(inner), moved.from, moved.to};
        const std::string inner_key = one.entry.key;
        one.from += "." + inner_key;
        one.to += "." + inner_key;
        add(*present, inner_key, one);
      }
    } else {
      diagnostics_.error(
          moved.entry.key_origin,
          moved.from,
          fmt::format(
              "another name of {}, which is given at {}; keep one", moved.to, present->origin.text()));
    }
  }

  YamlNode& root_;
  Diagnostics& diagnostics_;
  std::vector<Moved> moved_;
};

}  // namespace

void rename_aliases(YamlNode& root, Diagnostics& diagnostics) {
  Renamer(root, diagnostics).run();
}

}  // namespace llmtrain
