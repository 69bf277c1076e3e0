#include "llmtrain/discovery/hostlist.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace llmtrain {
namespace {

using Names = std::vector<std::string>;

constexpr int kMaxDepth = 4;
constexpr std::size_t kMaxDigits = 9;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Reads the grammar  list = item ("," item)*   item = (character | "[" set "]")*   set = (range | item) (","
// ...)*
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<Names> read() {
    LLMTRAIN_ASSIGN(names, list(0));
    if (at_ != text_.size()) return refuse("a `]` that closes nothing");
    return names;
  }

 private:
  bool done() const { return at_ == text_.size(); }
  char here() const { return done() ? '\0' : text_[at_]; }

  Error refuse(const std::string& what) const {
    constexpr std::size_t kShown = 80;
    return {ErrorCode::kUsage,
            fmt::format("host list `{}{}`, character {}: {}",
                        text_.substr(0, kShown),
                        text_.size() > kShown ? "..." : "",
                        at_ + 1,
                        what),
            "allowed: names of letters, digits, `-`, `_` and `.`, with ranges such as n[1-3,07-09]"};
  }

  Result<Names> list(int depth) {
    Names all;
    for (;;) {
      LLMTRAIN_ASSIGN(some, depth > 0 ? element(depth) : item(depth));
      if (all.size() + some.size() > kMaxHosts) return refuse(fmt::format("more than {} names", kMaxHosts));
      std::move(some.begin(), some.end(), std::back_inserter(all));
      if (here() != ',') return all;
      ++at_;
    }
  }

  // One part of a bracket: `3`, `01-12`, or anything that a list may hold.
  Result<Names> element(int depth) {
    const std::size_t end = std::min(text_.find_first_of(",[]", at_), text_.size());
    const std::string_view part = text_.substr(at_, end - at_);
    const std::size_t dash = part.find('-');
    const bool whole = end == text_.size() || text_[end] != '[';
    if (!whole || dash == std::string_view::npos || !is_number(part.substr(0, dash)) ||
        !is_number(part.substr(dash + 1)))
      return item(depth);
    LLMTRAIN_ASSIGN(names, range(part.substr(0, dash), part.substr(dash + 1)));
    at_ = end;
    return names;
  }

  Result<Names> range(std::string_view low, std::string_view high) const {
    if (low.size() > kMaxDigits || high.size() > kMaxDigits)
      return refuse(fmt::format("a number of more than {} digits", kMaxDigits));
    const std::uint64_t first = std::stoull(std::string(low));
    const std::uint64_t last = std::stoull(std::string(high));
    if (first > last) return refuse(fmt::format("the range {}-{} runs backwards", low, high));
    if (last - first >= kMaxHosts) return refuse(fmt::format("more than {} names", kMaxHosts));
    Names names;
    for (std::uint64_t number = first; number <= last; ++number)
      names.push_back(fmt::format("{:0{}}", number, low.size()));
    return names;
  }

  // One name with its brackets, multiplied out.
  Result<Names> item(int depth) {
    Names names(1);
    bool empty = true;
    while (!done() && here() != ',' && here() != ']') {
      Names parts(1);
      if (here() == '[') {
        LLMTRAIN_ASSIGN(inside, bracket(depth));
        parts = std::move(inside);
      } else {
        LLMTRAIN_ASSIGN(characters, literal());
        parts.front() = std::move(characters);
      }
      if (names.size() * parts.size() > kMaxHosts)
        return refuse(fmt::format("more than {} names", kMaxHosts));
      LLMTRAIN_ASSIGN(longer, product(names, parts));
      names = std::move(longer);
      empty = false;
    }
    if (empty) return refuse("a name is missing");
    return names;
  }

  Result<std::string> literal() {
    const std::size_t begin = at_;
    while (is_name_character(here())) ++at_;
    if (at_ == begin) return refuse("a character that no host name has");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<Names> bracket(int depth) {
    if (depth >= kMaxDepth) return refuse(fmt::format("brackets deeper than {}", kMaxDepth));
    ++at_;
    LLMTRAIN_ASSIGN(names, list(depth + 1));
    if (here() != ']') return refuse("a `[` that is not closed");
    ++at_;
    return names;
  }

  Result<Names> product(const Names& heads, const Names& tails) const {
    Names all;
    all.reserve(heads.size() * tails.size());
    for (const std::string& head : heads)
      for (const std::string& tail : tails) {
        if (head.size() + tail.size() > kMaxHostNameBytes)
          return refuse(fmt::format("a name of more than {} characters", kMaxHostNameBytes));
        all.push_back(head + tail);
      }
    return all;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// The value of `Nodes=` in a line of topology.conf; absent in lines of higher switches.
std::optional<std::string_view> nodes_of_switch(std::string_view line) {
  const std::size_t at = line.find("Nodes=");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + 6);
  return rest.substr(0, rest.find_first_of(" \t"));
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  text = trimmed(text);
  if (text.size() > kMaxHostlistBytes)
    return Error{ErrorCode::kUsage,
                 fmt::format("host list of {} bytes; allowed: {}", text.size(), kMaxHostlistBytes),
                 ""};
  return Reader(text).read();
}

Result<std::vector<std::string>> parse_node_order(std::string_view text, const std::string& origin) {
  if (text.size() > kMaxHostlistBytes)
    return Error{ErrorCode::kUsage,
                 fmt::format("{}: {} bytes; allowed: {}", origin, text.size(), kMaxHostlistBytes),
                 ""};
  Names all;
  std::set<std::string> seen;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    if (line.starts_with("SwitchName=")) {
      const auto nodes = nodes_of_switch(line);
      if (!nodes) continue;
      line = *nodes;
    }
    auto names = expand_hostlist(line);
    if (!names)
      return Error{ErrorCode::kUsage,
                   fmt::format("{}:{}: {}", origin, number, names.error().message),
                   names.error().hint};
    for (std::string& name : *names) {
      if (!seen.insert(name).second)
        return Error{ErrorCode::kUsage, fmt::format("{}:{}: {} is there twice", origin, number, name), ""};
      if (all.size() == kMaxHosts)
        return Error{ErrorCode::kUsage, fmt::format("{}: more than {} names", origin, kMaxHosts), ""};
      all.push_back(std::move(name));
    }
  }
  if (all.empty())
    return Error{
        ErrorCode::kUsage, fmt::format("{}: names no node", origin), "allowed: one host name a line"};
  return all;
}

}  // namespace llmtrain
