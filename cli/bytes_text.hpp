#pragma once

#include <cstdint>
#include <string>

namespace llmtrain::cli {

// An amount of bytes for people: "17 B", "1.84 MB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace llmtrain::cli
