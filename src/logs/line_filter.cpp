#include "llmtrain/logs/line_filter.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace llmtrain {
namespace {

constexpr std::string_view kCutMark = " ...";

// Words that say the same whatever stands around them.
constexpr std::array<std::string_view, 7> kAlarms = {"terminate called",
                                                     "traceback (most recent",
                                                     "segmentation fault",
                                                     "assertion",
                                                     "out of memory",
                                                     "core dumped",
                                                     "panic:"};
// Words that announce only in front of a colon, a bracket or the end, or right at the start of a line:
// "error:",
// "[WARNING]", "ERROR rank 3", but not "with an error of 0.1".
constexpr std::array<std::string_view, 5> kAnnouncers = {"error", "warning", "warn", "fatal", "critical"};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool announces(std::string_view line, std::string_view word) {
  for (std::size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (end < line.size() && is_word(line[end])) continue;
    const bool colon = end < line.size() && (line[end] == ':' || line[end] == ']');
    const bool first = line.substr(0, at).find_first_not_of(" \t[<(") == std::string_view::npos;
    if (colon || first) return true;  // "RuntimeError:" counts
  }
  return false;
}

}  // namespace

void LineFilter::give_out(const Line& line) {
  if (!pending_.empty() && pending_.back() == '\r') pending_.pop_back();
  line(pending_);
  pending_.clear();
  cut_ = false;
}

void LineFilter::feed(std::string_view bytes, const Line& line) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::string_view part = bytes.substr(0, newline);
    if (!cut_) {
      const std::size_t room = kMaxConsoleLine - pending_.size();
      pending_ += part.substr(0, room);
      if (part.size() > room) {
        pending_ += kCutMark;
        cut_ = true;
      }
    }
    if (newline == std::string_view::npos) return;
    give_out(line);
    bytes.remove_prefix(newline + 1);
  }
}

void LineFilter::finish(const Line& line) {
  if (!pending_.empty()) give_out(line);
}

bool is_alarming(std::string_view text) {
  std::string line(text.substr(0, kMaxConsoleLine));
  std::transform(line.begin(), line.end(), line.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  const auto holds = [&](std::string_view alarm) { return line.find(alarm) != std::string::npos; };
  return std::any_of(kAlarms.begin(), kAlarms.end(), holds) ||
         std::any_of(kAnnouncers.begin(), kAnnouncers.end(), [&](std::string_view word) {
           return announces(line, word);
         });
}

std::string printable_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) c = '?';
  return line;
}

}  // namespace llmtrain
