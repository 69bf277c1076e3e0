#include "llmtrain/data/permutation.hpp"

#include <algorithm>
#include <bit>

#include "llmtrain/core/check.hpp"
#include "llmtrain/data/hash.hpp"

namespace llmtrain {
namespace {

constexpr std::uint64_t mask(int bits) {
  return (std::uint64_t{1} << bits) - 1;
}

}  // namespace

Permutation::Permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch) : n_(n) {
  LLMTRAIN_CHECK(n >= 1 && n <= std::int64_t{1} << 62, "a permutation of {} elements", n);
  const int bits = std::max(2, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1))));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  const std::uint64_t base = combine64(seed, static_cast<std::uint64_t>(epoch));
  for (int round = 0; round < kRounds; ++round)
    keys_[round] = combine64(base, static_cast<std::uint64_t>(round));
}

std::int64_t Permutation::at(std::int64_t index) const {
  LLMTRAIN_CHECK(0 <= index && index < n_, "element {} of {}", index, n_);
  if (n_ == 1) return 0;
  // The network permutes the power of two, so a walk from inside [0, n) returns to it.
  std::uint64_t value = static_cast<std::uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= static_cast<std::uint64_t>(n_));
  return static_cast<std::int64_t>(value);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  int left_bits = left_bits_;
  int right_bits = right_bits_;
  std::uint64_t left = value >> right_bits;
  std::uint64_t right = value & mask(right_bits);
  for (const std::uint64_t key : keys_) {
    const std::uint64_t mixed = (left ^ mix64(right ^ key)) & mask(left_bits);
    left = right;
    right = mixed;
    std::swap(left_bits, right_bits);
  }
  return left << right_bits | right;
}

}  // namespace llmtrain
