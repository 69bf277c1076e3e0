#pragma once

#include <optional>
#include <string>
#include <string_view>

// Bytes as text: for files that people may look at, for environments, and inside of JSON, which is UTF-8.
namespace llmtrain {

std::string to_hex(std::string_view bytes);  // two digits of 0-9 and a-f each
// Absent where `text` is no row of such pairs.
std::optional<std::string> from_hex(std::string_view text);

}  // namespace llmtrain
