#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/spec/scalars.hpp"
#include "llmtrain/spec/tree.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kLongest = 65536;       // characters of one interpolated value
constexpr std::size_t kDeepest = 32;          // references within references
constexpr std::size_t kMostLookUps = 10'000;  // of one job: references can multiply
constexpr std::size_t kMostBytes = 1 << 22;   // of all interpolated values together

class Interpolator {
 public:
  Interpolator(const YamlNode& root,
               const YamlNode& defaults,
               const std::map<std::string, std::string>& env,
               Diagnostics& diagnostics)
      : root_(root), defaults_(defaults), env_(env), diagnostics_(diagnostics) {}

  void walk(YamlNode& node, const std::string& path) {
    if (node.is_scalar()) {
      if (node.text.find("${") == std::string::npos) return;
      place_ = &node;
      path_ = path;
      chain_ = {path};
      if (auto text = expand(node.text)) node.text = std::move(*text);
      bytes_ += node.text.size();
      return;
    }
    for (YamlEntry& entry : node.entries)
      walk(entry.value, path.empty() ? entry.key : path + "." + entry.key);
    for (std::size_t i = 0; i < node.items.size(); ++i) walk(node.items[i], fmt::format("{}[{}]", path, i));
  }

 private:
  std::nullopt_t refuse(const std::string& message) {
    diagnostics_.error(place_->origin, path_, message);
    return std::nullopt;
  }

  std::optional<std::string> expand(const std::string& text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t dollar = std::min(text.find("${", at), text.size());
      out += text.substr(at, dollar - at);
      if (dollar == text.size()) break;
      if (dollar > at && text[dollar - 1] == '$') {  // `$${` is a literal `${`
        out += '{';
        at = dollar + 2;
        continue;
      }
      const std::size_t end = text.find('}', dollar);
      if (end == std::string::npos)
        return refuse("`${` without its `}`; write $${ for the characters themselves");
      const auto value = look_up(text.substr(dollar + 2, end - dollar - 2));
      if (!value) return std::nullopt;
      out += *value;
      if (out.size() > kLongest)
        return refuse(fmt::format("longer than {} characters when interpolated", kLongest));
      at = end + 1;
    }
    return out;
  }

  std::optional<std::string> look_up(const std::string& name) {
    if (++look_ups_ > kMostLookUps || bytes_ > kMostBytes)
      return refuse(
          fmt::format("more than {} references or {} bytes of them in one job", kMostLookUps, kMostBytes));
    if (name.starts_with("env:")) {
      const auto variable = env_.find(name.substr(4));
      if (variable == env_.end()) return refuse(fmt::format("${{{}}}: no such environment variable", name));
      if (!is_utf8(variable->second))
        return refuse(fmt::format("${{{}}}: its value is not UTF-8 text", name));
      return variable->second;
    }
    if (std::find(chain_.begin(), chain_.end(), name) != chain_.end() || chain_.size() > kDeepest)
      return refuse(fmt::format("${{{}}} refers to itself: {} -> {}", name, fmt::join(chain_, " -> "), name));
    const YamlNode* node = find_path(root_, name);
    if (node == nullptr) node = find_path(defaults_, name);
    if (node == nullptr)
      return refuse(fmt::format("${{{}}}: no such field; allowed: the path of a field, or env:NAME", name));
    if (!node->is_scalar())
      return refuse(
          fmt::format("${{{}}} is {}; only single values can be inserted", name, to_string(node->kind)));
    chain_.push_back(name);
    auto value = expand(node->text);
    chain_.pop_back();
    return value;
  }

  const YamlNode& root_;  // as written: references expand what they find
  const YamlNode& defaults_;
  const std::map<std::string, std::string>& env_;
  Diagnostics& diagnostics_;
  const YamlNode* place_ = nullptr;
  std::string path_;
  std::vector<std::string> chain_;
  std::size_t look_ups_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

void interpolate(YamlNode& root,
                 const YamlNode& defaults,
                 const std::map<std::string, std::string>& env,
                 Diagnostics& diagnostics) {
  const YamlNode written = root;
  Interpolator(written, defaults, env, diagnostics).walk(root, "");
}

}  // namespace llmtrain
