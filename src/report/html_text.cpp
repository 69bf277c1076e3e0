#include "llmtrain/report/html.hpp"

namespace llmtrain {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// How many bytes the character at the start of `text` has; 0: they are no UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xC2 && first < 0xE0 ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (first == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
  if (first == 0xED && byte(1) > 0x9F) return 0;  // surrogates
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const char c = text.front();
    if (bytes == 0)
      result += kReplacement;
    else if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&#39;";
    else if (c == '\n' || c == '\t')
      result += ' ';
    else if (bytes == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f))
      result += kReplacement;
    else
      result += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

}  // namespace llmtrain
