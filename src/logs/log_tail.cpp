#include "llmtrain/logs/log_tail.hpp"

#include <fstream>
#include <iterator>

#include "llmtrain/logs/line_filter.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMaxBytes = 16 * 1024;

}  // namespace

std::vector<std::string> last_lines_of(std::string_view text, std::size_t max_lines) {
  const bool cut = text.size() > kMaxBytes;
  if (cut) text.remove_prefix(text.size() - kMaxBytes);
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(printable_line(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (cut && lines.size() > 1) lines.erase(lines.begin());  // it starts in the middle
  if (lines.size() > max_lines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(max_lines));
  return lines;
}

std::vector<std::string> last_lines(const std::string& path, std::size_t max_lines) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::streamoff>(file.tellg());
  constexpr auto kRead = static_cast<std::streamoff>(kMaxBytes) + 1;  // one more says that it was cut
  file.seekg(size > kRead ? size - kRead : 0);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return last_lines_of(text, max_lines);
}

}  // namespace llmtrain
