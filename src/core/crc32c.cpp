#include "llmtrain/core/crc32c.hpp"

#include <algorithm>
#include <array>

#include <isa-l/crc.h>

namespace llmtrain {
namespace {

// Reflected Castagnoli polynomial: bit 31 is the coefficient of x^0.
constexpr std::uint32_t kPolynomial = 0x82F63B78;

// a(x) b(x) mod P, both reflected.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    if ((a >> bit) & 1U) product ^= b;
    b = (b >> 1) ^ ((b & 1U) ? kPolynomial : 0U);
  }
  return product;
}

// x^(8 n) mod P by repeated squaring.
constexpr std::uint32_t power_of_bytes(std::uint64_t n) {
  std::uint32_t result = 0x80000000U;  // 1
  std::uint32_t factor = 0x00800000U;  // x^8
  for (; n != 0; n >>= 1) {
    if (n & 1U) result = multiply(result, factor);
    factor = multiply(factor, factor);
  }
  return result;
}

// Undoes the advance of a checksum over one zero byte. The polynomial's top bit tells, bit by bit, whether
// the forward step had subtracted it.
constexpr std::uint32_t retreat(std::uint32_t crc) {
  for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x80000000U) ? ((crc ^ kPolynomial) << 1) | 1U : crc << 1;
  return crc;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  constexpr std::size_t kChunk = std::size_t{1} << 30;  // the library counts bytes in an int
  crc = ~crc;
  while (!bytes.empty()) {
    const std::size_t length = std::min(bytes.size(), kChunk);
    // The library takes a mutable pointer and only reads through it.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(length), crc);
    bytes = bytes.subspan(length);
  }
  return ~crc;
}

std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b) {
  return multiply(crc_a, power_of_bytes(bytes_b)) ^ crc_b;
}

std::optional<ByteChange> locate_single_byte(std::uint32_t expected,
                                             std::uint32_t found,
                                             std::uint64_t length) {
  // The checksum is linear: the difference of the checksums is the checksum (without inversions) of the
  // difference of the bytes, that is of one byte followed by zeros. So walk back over the zeros until what
  // is left is the step of a single byte from an empty register, which `retreat` turns into the byte itself.
  std::optional<ByteChange> answer;
  std::uint32_t difference = expected ^ found;
  for (std::uint64_t from_end = 0; from_end < length; ++from_end) {
    difference = retreat(difference);
    if (difference == 0 || difference > 0xFF) continue;
    if (answer) return std::nullopt;
    answer = ByteChange{length - 1 - from_end, static_cast<std::uint8_t>(difference)};
  }
  return answer;
}

}  // namespace llmtrain
