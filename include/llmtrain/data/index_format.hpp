#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/indexed_dataset.hpp"

// The constants of Megatron's .idx file that its reader and its writer share; frozen by the format.
namespace llmtrain::index_format {

inline constexpr std::array<char, 9> kMagic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
// Magic, u64 version, u8 type code, u64 sequences, u64 document entries.
inline constexpr std::int64_t kHeaderBytes = 34;

// Refuses codes that cannot hold token ids, naming `path` and the byte of the code.
Result<TokenType> token_type(std::uint8_t code, const std::string& path);

}  // namespace llmtrain::index_format
