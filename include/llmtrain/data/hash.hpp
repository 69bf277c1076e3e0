#pragma once

#include <cstdint>
#include <span>

// Mixing of 64-bit words for orders and fingerprints: fast, the same on every machine, not secure.
namespace llmtrain {

// The finaliser of SplitMix64.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

constexpr std::uint64_t combine64(std::uint64_t a, std::uint64_t b) {
  return mix64(mix64(a) ^ b);
}

// Bytes are taken eight at a time, little-endian, the last group padded with zeros; the length counts.
std::uint64_t hash_bytes(std::span<const unsigned char> bytes, std::uint64_t seed = 0);

}  // namespace llmtrain
