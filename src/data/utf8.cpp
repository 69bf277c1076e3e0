#include "llmtrain/data/utf8.hpp"

#include <cstdlib>
#include <cstring>

#include <utf8proc.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

CodePoint decode_utf8(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const int length = lead >= 0xF0 && lead < 0xF5   ? 4
                     : lead >= 0xE0 && lead < 0xF0 ? 3
                     : lead >= 0xC2 && lead < 0xE0 ? 2
                                                   : 0;
  if (length == 0 || text.size() < static_cast<std::size_t>(length)) return {};
  std::uint32_t value = lead & (0xFFu >> (length + 1));
  for (int i = 1; i < length; ++i) {
    const std::uint32_t next = byte(static_cast<std::size_t>(i));
    if ((next & 0xC0) != 0x80) return {};
    value = value << 6 | (next & 0x3F);
  }
  const std::uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < least || surrogate || value > 0x10FFFF) return {};
  return {value, length};
}

bool is_ascii(std::string_view text) {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, sizeof word);
    if (word & 0x8080808080808080) return false;
  }
  for (; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) return false;
  }
  return true;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const int bytes = decode_utf8(text.substr(at)).bytes;
    if (bytes == 0) return at;
    at += static_cast<std::size_t>(bytes);
  }
  return at;
}

void append_utf8(std::uint32_t value, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(value), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

bool is_unicode_space(std::uint32_t value) {
  if (value < 0x80) return value == ' ' || (value >= 0x09 && value <= 0x0D);
  return value == 0x85 || value == 0xA0 || value == 0x1680 || (value >= 0x2000 && value <= 0x200A) ||
         value == 0x2028 || value == 0x2029 || value == 0x202F || value == 0x205F || value == 0x3000;
}

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = decode_utf8(text);
    if (point.bytes == 0 || !is_unicode_space(point.value)) return false;
    text.remove_prefix(static_cast<std::size_t>(point.bytes));
  }
  return true;
}

std::string to_nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  utf8proc_uint8_t* composed = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()),
                                   &composed,
                                   options);
  LLMTRAIN_CHECK(length >= 0, "{}", utf8proc_errmsg(length));
  std::string result(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(length));
  std::free(composed);
  return result;
}

}  // namespace llmtrain
