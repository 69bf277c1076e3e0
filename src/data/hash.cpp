#include "llmtrain/data/hash.hpp"

#include <algorithm>

namespace llmtrain {

std::uint64_t hash_bytes(std::span<const unsigned char> bytes, std::uint64_t seed) {
  std::uint64_t hash = combine64(seed, bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    const std::size_t end = std::min(i + 8, bytes.size());
    for (std::size_t j = i; j < end; ++j) word |= static_cast<std::uint64_t>(bytes[j]) << (8 * (j - i));
    hash = combine64(hash, word);
  }
  return hash;
}

}  // namespace llmtrain
