#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written.
//
// Printable Latin-1 bytes are the character of the same number; the other 68 are U+0100 onwards.
namespace llmtrain {

// The spelling of any bytes; `byte_level_spelling(" a")` is "\u0120a".
std::string byte_level_spelling(std::string_view bytes);

// The bytes of a spelling; absent when it holds a character outside the alphabet.
std::optional<std::string> byte_level_bytes(std::string_view spelling);

}  // namespace llmtrain
