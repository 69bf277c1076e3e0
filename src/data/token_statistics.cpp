#include "llmtrain/data/token_statistics.hpp"

#include <algorithm>
#include <cmath>

namespace llmtrain {

void TokenStatistics::add(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    if (id < 0) continue;  // a damaged file; its reader reports it
    if (static_cast<std::size_t>(id) >= counts_.size()) counts_.resize(static_cast<std::size_t>(id) + 1);
    ++counts_[static_cast<std::size_t>(id)];
  }
  num_tokens_ += std::ssize(ids);
}

std::int64_t TokenStatistics::num_distinct() const {
  return std::count_if(counts_.begin(), counts_.end(), [](std::int64_t count) { return count > 0; });
}

double TokenStatistics::bits_per_token() const {
  double bits = 0;
  for (const std::int64_t count : counts_) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(num_tokens_);
    bits -= share * std::log2(share);
  }
  return bits;
}

std::int64_t TokenStatistics::decoded_bytes(const Tokenizer& tokenizer) const {
  std::int64_t sum = 0;
  for (std::size_t id = 0; id < counts_.size(); ++id) {
    const auto one = static_cast<std::int32_t>(id);
    if (counts_[id] > 0) sum += counts_[id] * tokenizer.decoded_bytes({&one, 1});
  }
  return sum;
}

}  // namespace llmtrain
