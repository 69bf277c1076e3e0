#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The little of UTF-8 that tokenizers need.
namespace llmtrain {

struct CodePoint {
  std::uint32_t value = 0;
  int bytes = 0;  // 0: not valid UTF-8 here
};

// Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
CodePoint decode_utf8(std::string_view text);
// How many bytes at the start are valid.
std::size_t valid_utf8_prefix(std::string_view text);
bool is_ascii(std::string_view text);
void append_utf8(std::uint32_t value, std::string& out);

// Unicode's White_Space property.
bool is_unicode_space(std::uint32_t value);
bool is_blank(std::string_view text);  // nothing but white space

// Normal form C of valid UTF-8.
std::string to_nfc(std::string_view text);

}  // namespace llmtrain
