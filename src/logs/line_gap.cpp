#include "llmtrain/logs/line_gap.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace llmtrain {

void LineGap::lose(std::string_view bytes) {
  if (bytes.empty()) return;
  lines_ += static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  inside_ = bytes.back() != '\n';
}

std::string_view LineGap::whole_lines_of(std::string_view bytes) {
  if (!inside_) return bytes;
  const std::size_t newline = bytes.find('\n');
  const std::string_view rest = bytes.substr(0, newline == std::string_view::npos ? newline : newline + 1);
  lose(rest);
  return bytes.substr(rest.size());
}

std::string LineGap::close(std::string_view why, bool mid_line) {
  std::string text = fmt::format("{}[llmtrain: {} lines dropped: {}]\n", mid_line ? "\n" : "", lines(), why);
  *this = {};
  return text;
}

}  // namespace llmtrain
