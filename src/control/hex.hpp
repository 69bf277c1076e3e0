#pragma once

#include <algorithm>
#include <charconv>
#include <string>

#include <fmt/format.h>

// Random bytes as text, for files that people may look at.
namespace llmtrain {

inline std::string to_hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Empty where `text` is no row of pairs of hexadecimal digits.
inline std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned char byte = 0;
    const char* const end = text.data() + std::min(i + 2, text.size());
    if (std::from_chars(text.data() + i, end, byte, 16).ptr != text.data() + i + 2) return "";
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace llmtrain
