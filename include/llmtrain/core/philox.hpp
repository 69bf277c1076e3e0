#pragma once

#include <array>
#include <cstdint>

// Counter-based random numbers: the i-th number of a stream is a function of (key, i).
//
// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011). There is no state to save, skip or share: init, dropout and shuffles ask for exactly
// the numbers they need, on whichever rank needs them.
namespace llmtrain {

constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMul0 = 0xD2511F53;
  constexpr std::uint64_t kMul1 = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kMul0 * counter[0];
    const std::uint64_t p1 = kMul1 * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The known-answer vector of the authors' test suite for counter 0, key 0.
static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) ==
              std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});

// Four 32-bit numbers at `index` of the stream named by a 64-bit `key`.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                              std::uint64_t index,
                                              std::uint64_t substream = 0) {
  return philox4x32({static_cast<std::uint32_t>(index),
                     static_cast<std::uint32_t>(index >> 32),
                     static_cast<std::uint32_t>(substream),
                     static_cast<std::uint32_t>(substream >> 32)},
                    {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
}

}  // namespace llmtrain
