#include <fmt/format.h>

#include "llmtrain/data/bpe_tokenizer.hpp"
#include "llmtrain/data/hash.hpp"
#include "llmtrain/data/utf8.hpp"

namespace llmtrain {
namespace {

struct WordHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
};

}  // namespace

// The stages of one text, outermost first; every stage hands pieces to the next.
class BpeEncoder final : public Encoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Status encode(std::string_view text, SpecialText special, std::vector<std::int32_t>& ids) override {
    ids_ = &ids;
    special_ = special;
    return tokenizer_.raw_added_->scan(
        text,
        special,
        [this](std::string_view part) { return normalize(part); },
        [this](const AddedToken& token) { ids_->push_back(token.id); });
  }

 private:
  static constexpr std::size_t kCacheWords = 1 << 16;
  static constexpr std::size_t kCacheWordBytes = 48;

  // Valid UTF-8 goes on; each byte of anything else becomes its own token.
  Status normalize(std::string_view text) {
    bool first = true;
    while (!text.empty()) {
      const std::string_view valid = text.substr(0, valid_utf8_prefix(text));
      if (!valid.empty()) LLMTRAIN_TRY(normalize_valid(valid, first));
      first = false;
      text.remove_prefix(valid.size());
      for (; !text.empty() && decode_utf8(text).bytes == 0; text.remove_prefix(1)) {
        LLMTRAIN_TRY(append_word(text.substr(0, 1)));
      }
    }
    return ok_status();
  }

  Status normalize_valid(std::string_view text, bool first) {
    if (!tokenizer_.nfc_ || is_ascii(text)) return find_normalized(text, first);
    return find_normalized(to_nfc(text), first);
  }

  Status find_normalized(std::string_view text, bool first) {
    if (tokenizer_.normalized_added_->empty()) return prefix(text, first);
    return tokenizer_.normalized_added_->scan(
        text,
        special_,
        [&](std::string_view part) { return prefix(part, first); },
        [this](const AddedToken& token) { ids_->push_back(token.id); });
  }

  Status prefix(std::string_view text, bool first) {
    if (!tokenizer_.add_prefix_space_ || !first || text.front() == ' ') return split(text, 0);
    return split(" " + std::string(text), 0);
  }

  Status split(std::string_view text, std::size_t rule) {
    if (rule == tokenizer_.splits_.size()) return append_word(text);
    return tokenizer_.splits_[rule].split(text,
                                          [&](std::string_view piece) { return split(piece, rule + 1); });
  }

  Status append_word(std::string_view word) {
    if (const auto known = cache_.find(word); known != cache_.end()) {
      ids_->insert(ids_->end(), known->second.begin(), known->second.end());
      return ok_status();
    }
    const std::size_t begin = ids_->size();
    const auto whole =
        tokenizer_.words_.empty() ? tokenizer_.words_.end() : tokenizer_.words_.find(std::string(word));
    if (whole != tokenizer_.words_.end()) {
      ids_->push_back(whole->second);
    } else if (!tokenizer_.model_.encode(word, *ids_)) {
      return missing_byte(word);
    }
    if (word.size() <= kCacheWordBytes) {
      if (cache_.size() >= kCacheWords) cache_.clear();
      cache_.emplace(
          word, std::vector<std::int32_t>(ids_->begin() + static_cast<std::ptrdiff_t>(begin), ids_->end()));
    }
    return ok_status();
  }

  Status missing_byte(std::string_view word) const {
    for (const char byte : word) {
      if (tokenizer_.model_.byte_id(static_cast<unsigned char>(byte)) >= 0) continue;
      return Error{ErrorCode::kData,
                   fmt::format("{}: the vocabulary has no token for byte 0x{:02X}",
                               tokenizer_.name(),
                               static_cast<unsigned char>(byte)),
                   "use a tokenizer that was trained with all 256 bytes"};
    }
    return ok_status();
  }

  const BpeTokenizer& tokenizer_;
  std::unordered_map<std::string, std::vector<std::int32_t>, WordHash, std::equal_to<>> cache_;
  std::vector<std::int32_t>* ids_ = nullptr;
  SpecialText special_ = SpecialText::kPlain;
};

std::unique_ptr<Encoder> BpeTokenizer::make_encoder() const {
  return std::make_unique<BpeEncoder>(*this);
}

}  // namespace llmtrain
