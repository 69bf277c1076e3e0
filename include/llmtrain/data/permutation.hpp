#pragma once

#include <array>
#include <cstdint>

// A pseudo-random permutation of [0, n) that needs no memory: position i maps to `at(i)`.
//
// An eight-round Feistel network over the smallest power of two that holds n, walked until the value
// falls inside [0, n) (at most two steps on average). A pure function of (n, seed, epoch, i), the
// same on every machine; docs/DATA.md writes it down. Not cryptographic.
namespace llmtrain {

class Permutation {
 public:
  Permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

  std::int64_t size() const { return n_; }
  std::int64_t at(std::int64_t index) const;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t encrypt(std::uint64_t value) const;

  std::int64_t n_;
  int left_bits_;
  int right_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace llmtrain
