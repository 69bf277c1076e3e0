#pragma once

#include <cstddef>
#include <string_view>

namespace llmtrain {

// Offset of the first byte that is not well-formed UTF-8 (or is NUL); npos when all are.
std::size_t first_invalid_utf8(std::string_view text);

}  // namespace llmtrain
