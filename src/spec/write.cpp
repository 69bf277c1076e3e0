#include "llmtrain/spec/write.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "encode.hpp"

namespace llmtrain {
namespace {

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Texts that some reader of YAML takes for something else than text.
bool reads_as_other_type(const std::string& text) {
  constexpr std::array<std::string_view, 9> kWords = {
      "y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  double ignored = 0;
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end() ||
         parse_scalar(text, ignored) != ScalarFault::kMalformed || (lower[0] >= '0' && lower[0] <= '9');
}

bool is_plain(const YamlNode& scalar) {
  const std::string& text = scalar.text;
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return false;
  const auto allowed = [](char c) {
    return is_alnum(c) || std::string_view("_./+-% ").find(c) != std::string_view::npos;
  };
  if (!std::all_of(text.begin(), text.end(), allowed)) return false;
  const bool number_sign = text.size() > 1 &&
                           std::string_view("+-.").find(text[0]) != std::string_view::npos &&
                           text[1] >= '0' && text[1] <= '9';
  if (!is_alnum(text[0]) && text[0] != '_' && text[0] != '/' && !number_sign) return false;
  return !scalar.quoted || !reads_as_other_type(text);
}

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string scalar_text(const YamlNode& scalar) {
  return is_plain(scalar) ? scalar.text : quote(scalar.text);
}

std::string flow_list(const YamlNode& list) {
  std::string out = "[";
  for (const YamlNode& item : list.items) out += (out.size() > 1 ? ", " : "") + scalar_text(item);
  return out + "]";
}

bool is_flow_list(const YamlNode& list) {
  return std::all_of(
      list.items.begin(), list.items.end(), [](const YamlNode& item) { return item.is_scalar(); });
}

void emit(const YamlNode& node, int indent, std::string& out);

// The first line of a list's map stands behind its dash, so it is not indented.
void emit_map(const YamlNode& map, int indent, bool first_indented, std::string& out) {
  for (const YamlEntry& entry : map.entries) {
    if (first_indented) out.append(static_cast<std::size_t>(indent), ' ');
    first_indented = true;
    out += scalar_text(scalar_node(entry.key, true)) + ":";
    emit(entry.value, indent + 2, out);
  }
}

// Follows "key:" or "-".
void emit(const YamlNode& node, int indent, std::string& out) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: out += " null\n"; return;
    case YamlNode::Kind::kScalar: out += " " + scalar_text(node) + "\n"; return;
    case YamlNode::Kind::kList:
      if (is_flow_list(node)) {
        out += " " + flow_list(node) + "\n";
        return;
      }
      out += "\n";
      for (const YamlNode& item : node.items) {
        out.append(static_cast<std::size_t>(indent), ' ');
        out += "-";
        if (item.is_map() && !item.entries.empty()) {
          out += " ";
          emit_map(item, indent + 2, false, out);
        } else {
          emit(item, indent + 2, out);
        }
      }
      return;
    case YamlNode::Kind::kMap:
      if (node.entries.empty()) {
        out += " {}\n";
        return;
      }
      out += "\n";
      emit_map(node, indent, true, out);
  }
}

nlohmann::ordered_json json_of(const YamlNode& node) {
  nlohmann::ordered_json json;
  switch (node.kind) {
    case YamlNode::Kind::kNull: break;
    case YamlNode::Kind::kScalar: {
      bool flag = false;
      double number = 0;
      json = node.text;
      if (node.quoted) break;
      if (parse_scalar(node.text, flag) == ScalarFault::kNone) json = flag;
      // The digits themselves, so that 64-bit seeds and doubles keep every bit.
      if (parse_scalar(node.text, number) == ScalarFault::kNone)
        json = nlohmann::ordered_json::parse(node.text, nullptr, false);
      if (json.is_discarded()) json = number;
      break;
    }
    case YamlNode::Kind::kList:
      json = nlohmann::ordered_json::array();
      for (const YamlNode& item : node.items) json.push_back(json_of(item));
      break;
    case YamlNode::Kind::kMap:
      json = nlohmann::ordered_json::object();
      for (const YamlEntry& entry : node.entries) json[entry.key] = json_of(entry.value);
      break;
  }
  return json;
}

}  // namespace

YamlNode to_tree(const JobSpec& spec) {
  return encode_section(spec);
}

std::string to_yaml(const YamlNode& tree) {
  std::string out;
  if (tree.is_map() && !tree.entries.empty()) {
    emit_map(tree, 0, true, out);
    return out;
  }
  emit(tree, 0, out);
  return out.substr(out.find_first_not_of(' '));
}

std::string to_json(const YamlNode& tree) {
  return json_of(tree).dump(2) + "\n";
}

}  // namespace llmtrain
