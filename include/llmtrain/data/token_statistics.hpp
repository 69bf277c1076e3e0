#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llmtrain/data/tokenizer.hpp"

// How often each id occurs, and what follows from it.
namespace llmtrain {

class TokenStatistics {
 public:
  void add(std::span<const std::int32_t> ids);

  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_distinct() const;
  // Entropy of the unigram distribution: what a model reaches that knows frequencies only.
  double bits_per_token() const;
  std::int64_t decoded_bytes(const Tokenizer& tokenizer) const;
  std::int32_t largest_id() const { return static_cast<std::int32_t>(counts_.size()) - 1; }

 private:
  std::vector<std::int64_t> counts_;  // by id
  std::int64_t num_tokens_ = 0;
};

}  // namespace llmtrain
