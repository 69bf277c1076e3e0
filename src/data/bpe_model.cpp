#include "llmtrain/data/bpe_model.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>
#include <tuple>

#include "llmtrain/data/hash.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kShortWord = 48;
constexpr std::int32_t kNoRank = std::numeric_limits<std::int32_t>::max();

}  // namespace

BpeModel::BpeModel(const std::array<std::int32_t, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids) {
  slots_.resize(std::bit_ceil(2 * merges.size() + 2));
  mask_ = slots_.size() - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const std::uint64_t key = key_of(merge.left, merge.right);
    std::uint64_t at = mix64(key) & mask_;
    while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask_;
    slots_[at] = {key, static_cast<std::int32_t>(rank), merge.result};
  }
}

std::uint64_t BpeModel::key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

const BpeModel::Slot* BpeModel::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = key_of(left, right);
  std::uint64_t at = mix64(key) & mask_;
  while (slots_[at].key != kEmpty) {
    if (slots_[at].key == key) return &slots_[at];
    at = (at + 1) & mask_;
  }
  return nullptr;
}

bool BpeModel::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::size_t begin = ids.size();
  for (const char byte : word) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      ids.resize(begin);
      return false;
    }
    ids.push_back(id);
  }
  word.size() <= kShortWord ? merge_short(ids, begin) : merge_long(ids, begin);
  return true;
}

void BpeModel::merge_short(std::vector<std::int32_t>& ids, std::size_t begin) const {
  std::size_t size = ids.size() - begin;
  std::array<const Slot*, kShortWord> pairs{};  // of each id and its right neighbour
  std::int32_t* word = ids.data() + begin;
  for (std::size_t i = 0; i + 1 < size; ++i) pairs[i] = find(word[i], word[i + 1]);
  while (size > 1) {
    std::size_t best = size;
    std::int32_t best_rank = kNoRank;
    for (std::size_t i = 0; i + 1 < size; ++i) {
      if (pairs[i] != nullptr && pairs[i]->rank < best_rank) {
        best = i;
        best_rank = pairs[i]->rank;
      }
    }
    if (best == size) break;
    word[best] = pairs[best]->result;
    std::copy(word + best + 2, word + size, word + best + 1);
    std::copy(pairs.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              pairs.begin() + static_cast<std::ptrdiff_t>(size),
              pairs.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --size;
    if (best > 0) pairs[best - 1] = find(word[best - 1], word[best]);
    if (best + 1 < size) pairs[best] = find(word[best], word[best + 1]);
  }
  ids.resize(begin + size);
}

// Ids form a linked list; the heap holds candidate pairs, and a pair that changed since is dropped.
void BpeModel::merge_long(std::vector<std::int32_t>& ids, std::size_t begin) const {
  struct Link {
    std::int64_t previous, next;
  };
  using Candidate =
      std::tuple<std::int32_t, std::int64_t, std::int32_t, std::int32_t>;  // rank, place, left, right
  const auto size = static_cast<std::int64_t>(ids.size() - begin);
  std::int32_t* word = ids.data() + begin;
  std::vector<Link> links(static_cast<std::size_t>(size));
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto offer = [&](std::int64_t place) {
    const std::int64_t next = links[static_cast<std::size_t>(place)].next;
    if (next >= size) return;
    if (const Slot* slot = find(word[place], word[next]))
      heap.emplace(slot->rank, place, word[place], word[next]);
  };
  for (std::int64_t i = 0; i < size; ++i) links[static_cast<std::size_t>(i)] = {i - 1, i + 1};
  for (std::int64_t i = 0; i < size; ++i) offer(i);
  while (!heap.empty()) {
    const auto [rank, place, left, right] = heap.top();
    heap.pop();
    const std::int64_t next = links[static_cast<std::size_t>(place)].next;
    if (word[place] != left || next >= size || word[next] != right) continue;
    word[place] = find(left, right)->result;
    word[next] = -1;  // gone
    const std::int64_t after = links[static_cast<std::size_t>(next)].next;
    links[static_cast<std::size_t>(place)].next = after;
    if (after < size) links[static_cast<std::size_t>(after)].previous = place;
    if (const std::int64_t before = links[static_cast<std::size_t>(place)].previous; before >= 0)
      offer(before);
    offer(place);
  }
  ids.erase(std::remove(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end(), -1), ids.end());
}

}  // namespace llmtrain
