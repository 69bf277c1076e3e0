#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// CRC32C (Castagnoli), the checksum of checkpoints: it finds accidents, it is no defence against an
// adversary.
//
// The convention is that of iSCSI, SSE4.2 and every storage system: crc32c("123456789") = 0xE3069283.
namespace llmtrain {

// Continues `crc`, the checksum of what came before: crc32c(b, crc32c(a)) = crc32c(ab). Any length.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

// The checksum of `a b` from the checksums of both and the length of b.
std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b);

// One byte that explains a wrong checksum.
struct ByteChange {
  std::uint64_t offset = 0;
  std::uint8_t difference = 0;  // XOR of the byte found and the byte written
  friend bool operator==(const ByteChange&, const ByteChange&) = default;
};

// Where in `length` bytes a single changed byte would turn checksum `expected` into `found`; absent when no
// single byte does, or when several could. A guess about the kind of damage, never a proof of it: random
// damage of a 1 MiB block looks like one byte in about 6 of 100 cases.
std::optional<ByteChange> locate_single_byte(std::uint32_t expected,
                                             std::uint32_t found,
                                             std::uint64_t length);

}  // namespace llmtrain
