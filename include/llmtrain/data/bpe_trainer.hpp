#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llmtrain/core/result.hpp"

// Learns a byte-level BPE: which pairs of tokens to join, most frequent first.
//
// Text is cut into words by GPT-2's pattern; ids 0 to 255 are the bytes, each merge adds the next id,
// `<|endoftext|>` is the last. Of equally frequent pairs the one with the smaller ids wins, so the same
// text gives the same tokenizer, on any number of threads.
namespace llmtrain {

using WordCounts = std::unordered_map<std::string, std::int64_t>;

// Adds the words of one text; bytes that are no valid UTF-8 are left out.
Status count_words(std::string_view text, WordCounts& counts);

struct TrainedBpe {
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;  // merge i makes id 256 + i
  std::vector<std::string> tokens;                            // the bytes of every id but the last
  std::int32_t eod_id() const { return static_cast<std::int32_t>(tokens.size()); }
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(tokens.size()) + 1; }
};

// 258 to 16,777,216.
Status check_vocab_size(std::int64_t vocab_size);

// When no pair occurs twice any more, the vocabulary is
// smaller than asked. `progress` hears the merges done, now and then.
Result<TrainedBpe> train_bpe(const WordCounts& counts,
                             std::int64_t vocab_size,
                             const std::function<void(std::int64_t)>& progress);

// The two files that Hugging Face's libraries load: tokenizer.json and tokenizer_config.json.
std::string to_tokenizer_json(const TrainedBpe& bpe);
std::string tokenizer_config_json();

}  // namespace llmtrain
