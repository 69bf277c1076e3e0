#include "llmtrain/data/bpe_trainer.hpp"

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "llmtrain/data/hash.hpp"
#include "llmtrain/data/split_pattern.hpp"
#include "llmtrain/data/utf8.hpp"

namespace llmtrain {
namespace {

struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count = 0;
};

struct PairHash {
  std::size_t operator()(std::uint64_t pair) const { return mix64(pair); }
};

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// Pair counts that follow every merge, and the words where a pair may be found.
class Trainer {
 public:
  explicit Trainer(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      const auto& ids = words_[w].ids;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) add(pair_of(ids[i], ids[i + 1]), words_[w].count, w);
    }
    for (const auto& [pair, seen] : pairs_) queue_.emplace(seen.count, ~pair);
  }

  // Joins the most frequent pair into `id`; absent when no pair occurs twice.
  std::optional<std::pair<std::int32_t, std::int32_t>> merge_best(std::int32_t id) {
    while (!queue_.empty()) {
      const auto [count, inverted] = queue_.top();
      queue_.pop();
      const std::uint64_t pair = ~inverted;
      const auto found = pairs_.find(pair);
      if (found == pairs_.end()) continue;
      if (found->second.count != count) {  // an old entry: put it back with today's count
        if (found->second.count > 0) queue_.emplace(found->second.count, inverted);
        continue;
      }
      if (count < 2) return std::nullopt;
      const std::vector<std::uint32_t> places = std::move(found->second.words);
      pairs_.erase(found);
      const auto left = static_cast<std::int32_t>(pair >> 32);
      const auto right = static_cast<std::int32_t>(pair & 0xFFFFFFFF);
      changed_.clear();
      for (const std::uint32_t w : places) merge_word(w, left, right, id);
      pairs_.erase(pair);
      for (const std::uint64_t fresh : changed_) {
        if (const auto it = pairs_.find(fresh); it != pairs_.end()) queue_.emplace(it->second.count, ~fresh);
      }
      return std::pair(left, right);
    }
    return std::nullopt;
  }

 private:
  struct Seen {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // may name a word twice, or one that lost the pair
  };

  void add(std::uint64_t pair, std::int64_t count, std::size_t word) {
    Seen& seen = pairs_[pair];
    seen.count += count;
    const auto w = static_cast<std::uint32_t>(word);
    if (count > 0 && (seen.words.empty() || seen.words.back() != w)) seen.words.push_back(w);
  }

  void merge_word(std::uint32_t w, std::int32_t left, std::int32_t right, std::int32_t id) {
    std::vector<std::int32_t>& ids = words_[w].ids;
    const std::int64_t count = words_[w].count;
    std::size_t out = 0;
    for (std::size_t i = 0; i < ids.size(); ++i, ++out) {
      if (i + 1 >= ids.size() || ids[i] != left || ids[i + 1] != right) {
        ids[out] = ids[i];
        continue;
      }
      if (out > 0) {
        add(pair_of(ids[out - 1], left), -count, w);
        grow(pair_of(ids[out - 1], id), count, w);
      }
      if (i + 2 < ids.size()) {
        add(pair_of(right, ids[i + 2]), -count, w);
        grow(pair_of(id, ids[i + 2]), count, w);
      }
      ids[out] = id;
      ++i;
    }
    ids.resize(out);
  }

  // A pair of the new token. Two joined neighbours, `id id`, are seen from both sides: first as
  // (id, left), which the second join takes back.
  void grow(std::uint64_t pair, std::int64_t count, std::uint32_t w) {
    add(pair, count, w);
    changed_.push_back(pair);
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Seen, PairHash> pairs_;
  // Largest count first, then the smallest pair: ids are inverted because the queue is a maximum.
  std::priority_queue<std::pair<std::int64_t, std::uint64_t>> queue_;
  std::vector<std::uint64_t> changed_;
};

}  // namespace

Status count_words(std::string_view text, WordCounts& counts) {
  LLMTRAIN_ASSIGN(pattern, SplitPattern::compile(kGpt2Pattern, SplitPattern::Gaps::kKeep));
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, valid_utf8_prefix(text));
    LLMTRAIN_TRY(pattern.split(valid, [&](std::string_view word) {
      ++counts[std::string(word)];
      return ok_status();
    }));
    text.remove_prefix(std::min(text.size(), valid.size() + 1));
  }
  return ok_status();
}

Status check_vocab_size(std::int64_t vocab_size) {
  if (vocab_size < 258 || vocab_size > 1 << 24) {
    return Error{ErrorCode::kUsage,
                 fmt::format("a vocabulary of {} ids; allowed are 258 to 16777216", vocab_size),
                 "256 ids are the bytes and one ends documents"};
  }
  return ok_status();
}

Result<TrainedBpe> train_bpe(const WordCounts& counts,
                             std::int64_t vocab_size,
                             const std::function<void(std::int64_t)>& progress) {
  LLMTRAIN_TRY(check_vocab_size(vocab_size));
  if (counts.empty()) {
    return Error{ErrorCode::kData, "the input holds no words to train on", "give a text that is not empty"};
  }
  std::vector<Word> words;
  words.reserve(counts.size());
  std::vector<std::pair<std::string_view, std::int64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [text, count] : sorted) {
    Word word{{}, count};
    for (const char byte : text) word.ids.push_back(static_cast<unsigned char>(byte));
    words.push_back(std::move(word));
  }
  TrainedBpe bpe;
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.emplace_back(1, static_cast<char>(byte));
  Trainer trainer(std::move(words));
  while (bpe.vocab_size() < vocab_size) {
    const auto merge = trainer.merge_best(static_cast<std::int32_t>(bpe.tokens.size()));
    if (!merge) break;
    bpe.tokens.push_back(bpe.tokens[static_cast<std::size_t>(merge->first)] +
                         bpe.tokens[static_cast<std::size_t>(merge->second)]);
    bpe.merges.push_back(*merge);
    if (bpe.merges.size() % 256 == 0) progress(static_cast<std::int64_t>(bpe.merges.size()));
  }
  return bpe;
}

}  // namespace llmtrain
