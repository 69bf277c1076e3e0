#include "llmtrain/data/byte_level.hpp"

#include <cstdint>

#include "llmtrain/data/utf8.hpp"

namespace llmtrain {
namespace {

constexpr bool prints_as_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  std::array<std::uint16_t, 256> character{};  // by byte
  std::array<std::int16_t, 512> byte{};        // by character; -1 outside the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  std::uint16_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const std::uint16_t character = prints_as_itself(byte) ? static_cast<std::uint16_t>(byte) : next++;
    alphabet.character[static_cast<std::size_t>(byte)] = character;
    alphabet.byte[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string byte_level_spelling(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) append_utf8(kAlphabet.character[static_cast<unsigned char>(byte)], spelling);
  return spelling;
}

std::optional<std::string> byte_level_bytes(std::string_view spelling) {
  std::string bytes;
  while (!spelling.empty()) {
    const CodePoint point = decode_utf8(spelling);
    if (point.bytes == 0 || point.value >= kAlphabet.byte.size() || kAlphabet.byte[point.value] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[point.value]));
    spelling.remove_prefix(static_cast<std::size_t>(point.bytes));
  }
  return bytes;
}

}  // namespace llmtrain
