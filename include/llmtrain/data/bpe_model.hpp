#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

// Byte-pair merges over token ids: the core of a byte-level BPE, without text rules or files.
//
// A word starts as one id per byte; the pair of neighbours with the lowest rank is joined, leftmost
// first, until none is left. Short words are scanned, long ones use a heap (n log n).
namespace llmtrain {

struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;
};

class BpeModel {
 public:
  // `byte_ids[b]` is the id of byte b, or -1. Merges are in order of rank; of equal pairs the later counts.
  BpeModel(const std::array<std::int32_t, 256>& byte_ids, const std::vector<Merge>& merges);

  // Appends the ids of one word. False, and nothing appended, when a byte has no id.
  bool encode(std::string_view word, std::vector<std::int32_t>& ids) const;
  std::int32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    std::int32_t rank = 0;
    std::int32_t result = 0;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  static std::uint64_t key_of(std::int32_t left, std::int32_t right);
  const Slot* find(std::int32_t left, std::int32_t right) const;
  void merge_short(std::vector<std::int32_t>& ids, std::size_t begin) const;
  void merge_long(std::vector<std::int32_t>& ids, std::size_t begin) const;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Slot> slots_;  // open addressing, at most half full
  std::uint64_t mask_ = 0;
};

}  // namespace llmtrain
