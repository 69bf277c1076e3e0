#include "llmtrain/spec/yaml.hpp"

#include <algorithm>
#include <istream>
#include <map>
#include <streambuf>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "utf8.hpp"

namespace llmtrain {
namespace {

// Ends the parse: what follows could only repeat or hide the reason.
struct Refused {
  Origin origin;
  std::string message;
};

// Origins of one document: real places of a file, or one fixed origin for a `--set` value.
class Places {
 public:
  explicit Places(Origin fixed) : fixed_(std::move(fixed)) {}
  explicit Places(const std::string& source_name)
      : fixed_{std::make_shared<const std::string>(source_name), 0, 0}, exact_(true) {}

  Origin at(const YAML::Mark& mark) const {
    return exact_ ? Origin{fixed_.source, mark.line + 1, mark.column + 1} : fixed_;
  }

 private:
  Origin fixed_;
  bool exact_ = false;
};

// Builds the tree from the parser's events; yaml-cpp's own nodes would drop duplicate keys silently.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Places& places, Diagnostics& diagnostics) : places_(places), diagnostics_(diagnostics) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) throw Refused{places_.at(mark), "a second document; a job file holds one"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(leaf({}, mark), anchor); }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(tag, mark);
    if (wants_key()) {
      open_.back().key = value;
      open_.back().key_origin = places_.at(mark);
      open_.back().has_key = true;
      return;
    }
    add(leaf(scalar_node(value, tag == "!"), mark), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto anchored = anchors_.find(anchor);
    if (anchored == anchors_.end()) throw Refused{places_.at(mark), "an alias inside its own anchor"};
    count(anchored->second.second, mark);
    add(anchored->second.first, 0);
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(list_node(), mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(map_node(), mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    std::size_t first_node = 0;  // value of nodes_ when it was opened
    bool has_key = false;
    std::string key;
    Origin key_origin;
  };

  bool wants_key() const { return !open_.empty() && open_.back().node.is_map() && !open_.back().has_key; }

  void refuse_tag(const std::string& tag, const YAML::Mark& mark) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      throw Refused{places_.at(mark),
                    fmt::format("the tag {}; the schema decides what a value is, remove the tag", tag)};
  }

  void count(std::size_t nodes, const YAML::Mark& mark) {
    nodes_ += nodes;
    if (nodes_ > YamlLimits::kNodes)
      throw Refused{places_.at(mark),
                    fmt::format("more than {} values (aliases counted as copies)", YamlLimits::kNodes)};
  }

  YamlNode leaf(YamlNode node, const YAML::Mark& mark) {
    count(1, mark);
    node.origin = places_.at(mark);
    return node;
  }

  void open(YamlNode node, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_tag(tag, mark);
    if (wants_key())
      throw Refused{places_.at(mark), "a list or map as a key; keys are text (is a bracket left open?)"};
    if (open_.size() >= YamlLimits::kDepth)
      throw Refused{places_.at(mark), fmt::format("nested more than {} levels deep", YamlLimits::kDepth)};
    const std::size_t first = nodes_;
    open_.push_back({leaf(std::move(node), mark), anchor, first, false, "", {}});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.anchor != 0) anchors_[done.anchor] = {done.node, nodes_ - done.first_node};
    add(std::move(done.node), 0);
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = {node, 1};
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.is_list()) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    if (!parent.has_key) throw Refused{node.origin, "an empty key or an alias as a key; keys are text"};
    parent.has_key = false;
    add_entry(parent, std::move(node));
  }

  void add_entry(Open& parent, YamlNode value) {
    if (parent.key == "<<")
      throw Refused{parent.key_origin,
                    "the merge key <<; give several job files instead, they merge left to right"};
    // An empty value has no place of its own: the parser reports where the next token stands.
    if (value.kind == YamlNode::Kind::kNull) value.origin = parent.key_origin;
    auto& entries = parent.node.entries;
    if (entries.size() >= YamlLimits::kKeys)
      throw Refused{parent.key_origin, fmt::format("more than {} keys in one map", YamlLimits::kKeys)};
    const auto twin = std::find_if(entries.begin(), entries.end(), [&parent](const YamlEntry& entry) {
      return entry.key == parent.key;
    });
    if (twin == entries.end()) {
      entries.push_back({std::move(parent.key), parent.key_origin, std::move(value)});
    } else {
      diagnostics_.error(
          parent.key_origin,
          "",
          fmt::format(
              "the key {} is given twice; the first one is at {}", parent.key, twin->key_origin.text()));
    }
  }

  const Places& places_;
  Diagnostics& diagnostics_;
  YamlNode root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::pair<YamlNode, std::size_t>> anchors_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

// Reads from memory that outlives it; std::istringstream would copy.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // a get area is never written
    setg(begin, begin, begin + text.size());
  }
};

YamlNode parse(std::string_view text, const Places& places, Diagnostics& diagnostics) {
  if (text.size() > YamlLimits::kBytes) {
    diagnostics.error(
        places.at({}),
        "",
        fmt::format("{} bytes long; a job file has at most {}", text.size(), YamlLimits::kBytes));
    return map_node();
  }
  if (const std::size_t bad = first_invalid_utf8(text); bad != std::string_view::npos) {
    YAML::Mark mark;
    mark.line =
        static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n'));
    const std::size_t line_start = bad == 0 ? std::string_view::npos : text.rfind('\n', bad - 1);
    mark.column = static_cast<int>(bad - (line_start == std::string_view::npos ? 0 : line_start + 1));
    diagnostics.error(places.at(mark),
                      "",
                      fmt::format("the byte 0x{:02x} is not UTF-8 text; save the file as UTF-8",
                                  static_cast<unsigned char>(text[bad])));
    return map_node();
  }
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  TreeBuilder builder(places, diagnostics);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& refused) {
    diagnostics.error(refused.origin, "", refused.message);
  } catch (const YAML::Exception& error) {
    diagnostics.error(places.at(error.mark), "", "not YAML: " + error.msg);
  }
  return builder.take();
}

}  // namespace

YamlNode parse_yaml(const std::string& text, const std::string& source_name, Diagnostics& diagnostics) {
  const Places places(source_name);
  YamlNode root = parse(text, places, diagnostics);
  if (root.kind == YamlNode::Kind::kNull) {
    root = map_node();
    root.origin = places.at({});
  }
  if (!root.is_map()) {
    if (!diagnostics.has_errors())
      diagnostics.error(
          root.origin, "", fmt::format("{}; a job file is a map of sections", to_string(root.kind)));
    root = map_node();
  }
  return root;
}

YamlNode parse_yaml_value(const std::string& text, const Origin& origin, Diagnostics& diagnostics) {
  YamlNode node;
  if (text.empty()) {
    node = scalar_node("", true);  // `--set a.b=` clears a text
    node.origin = origin;
    return node;
  }
  return parse(text, Places(origin), diagnostics);
}

}  // namespace llmtrain
