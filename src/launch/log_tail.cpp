#include "llmtrain/launch/log_tail.hpp"

#include <algorithm>
#include <fstream>

namespace llmtrain {

std::vector<std::string> last_lines(const std::string& path, std::size_t max_lines) {
  constexpr std::streamoff kMaxBytes = 16 * 1024;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  const bool cut = size > kMaxBytes;
  file.seekg(cut ? size - kMaxBytes : 0);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    for (char& c : line)
      if (static_cast<unsigned char>(c) < ' ' && c != '\t') c = '?';
    lines.push_back(std::move(line));
  }
  if (cut && lines.size() > 1) lines.erase(lines.begin());  // it starts in the middle
  if (lines.size() > max_lines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(max_lines));
  return lines;
}

}  // namespace llmtrain
