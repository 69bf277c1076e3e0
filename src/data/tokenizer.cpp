#include "llmtrain/data/tokenizer.hpp"

#include <fmt/format.h>

namespace llmtrain {

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, SpecialText special) const {
  std::vector<std::int32_t> ids;
  LLMTRAIN_TRY(make_encoder()->encode(text, special, ids));
  return ids;
}

Result<std::string> Tokenizer::decode(std::span<const std::int32_t> ids, bool with_special) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const auto bytes = bytes_of(id);
    if (!bytes) {
      return Error{ErrorCode::kData,
                   fmt::format("{}: no token has id {}; ids are below {}", name(), id, vocab_size()),
                   "decode with the tokenizer that made these ids"};
    }
    if (with_special || !is_special(id)) text += *bytes;
  }
  return text;
}

std::int64_t Tokenizer::decoded_bytes(std::span<const std::int32_t> ids) const {
  std::int64_t sum = 0;
  for (const std::int32_t id : ids) {
    const auto bytes = bytes_of(id);
    if (bytes && !is_special(id)) sum += static_cast<std::int64_t>(bytes->size());
  }
  return sum;
}

void add_borders(const Tokenizer& tokenizer, bool bos, bool eod, std::vector<std::int32_t>& ids) {
  const auto first = tokenizer.bos_id();
  const auto last = tokenizer.eod_id();
  if (bos && first && (ids.empty() || ids.front() != *first)) ids.insert(ids.begin(), *first);
  if (eod && last && (ids.empty() || ids.back() != *last)) ids.push_back(*last);
}

}  // namespace llmtrain
