#include "llmtrain/data/bpe_tokenizer.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/data/byte_level.hpp"
#include "llmtrain/data/utf8.hpp"

namespace llmtrain {
namespace {

constexpr std::int32_t kMaxId = (1 << 24) - 1;  // far above any real vocabulary; bounds memory

// Names that end a document, most usual first; tokenizer_config.json's eos_token comes after them,
// because chat models put the end of a turn there.
constexpr std::string_view kEodNames[] = {
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|end▁of▁sentence|>"};

Error contradiction(const std::string& name, const std::string& what) {
  return {ErrorCode::kData,
          fmt::format("{}: {}", name, what),
          "the tokenizer's files are damaged or do not belong together"};
}

Result<std::vector<Merge>> resolve_merges(const TokenizerDefinition& definition) {
  std::vector<Merge> merges;
  merges.reserve(definition.merges.size());
  std::string joined;
  const auto id_of = [&](const std::string& token) {
    const auto found = definition.vocab.find(token);
    return found == definition.vocab.end() ? -1 : found->second;
  };
  for (const auto& [left, right] : definition.merges) {
    joined.assign(left).append(right);
    const Merge merge{id_of(left), id_of(right), id_of(joined)};
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
      const std::string& missing = merge.left < 0 ? left : merge.right < 0 ? right : joined;
      return contradiction(definition.name,
                           fmt::format("merge {} (`{}` + `{}`): token `{}` is not in the vocabulary",
                                       merges.size(),
                                       left,
                                       right,
                                       missing));
    }
    merges.push_back(merge);
  }
  return merges;
}

std::array<std::int32_t, 256> byte_ids(const TokenizerDefinition& definition) {
  std::array<std::int32_t, 256> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = definition.vocab.find(byte_level_spelling(std::string(1, static_cast<char>(byte))));
    ids[static_cast<std::size_t>(byte)] = found == definition.vocab.end() ? -1 : found->second;
  }
  return ids;
}

std::optional<std::int32_t> find_eod(const TokenizerDefinition& definition) {
  const auto id_of = [&](std::string_view name) -> std::optional<std::int32_t> {
    for (const AddedToken& token : definition.added) {
      if (token.content == name) return token.id;
    }
    return std::nullopt;
  };
  for (const std::string_view name : kEodNames) {
    if (const auto id = id_of(name)) return id;
  }
  return definition.eos_token.empty() ? std::nullopt : id_of(definition.eos_token);
}

}  // namespace

Status BpeTokenizer::set_entry(std::int32_t id, std::string bytes, bool special) {
  if (id < 0 || id > kMaxId) {
    return contradiction(name_, fmt::format("token `{}` has id {}; allowed are 0 to {}", bytes, id, kMaxId));
  }
  if (static_cast<std::size_t>(id) >= bytes_.size()) bytes_.resize(static_cast<std::size_t>(id) + 1);
  Entry& entry = bytes_[static_cast<std::size_t>(id)];
  if (entry.known && entry.bytes != bytes) {
    return contradiction(name_, fmt::format("tokens `{}` and `{}` both have id {}", entry.bytes, bytes, id));
  }
  entry = {std::move(bytes), true, special};
  return ok_status();
}

Result<std::shared_ptr<const BpeTokenizer>> BpeTokenizer::make(TokenizerDefinition definition) {
  LLMTRAIN_ASSIGN(merges, resolve_merges(definition));
  std::shared_ptr<BpeTokenizer> made(new BpeTokenizer(BpeModel(byte_ids(definition), merges)));
  made->name_ = definition.name;
  for (const auto& [spelling, id] : definition.vocab) {
    // An added token may stand in the vocabulary too, there in its own spelling.
    const auto added = std::find_if(definition.added.begin(),
                                    definition.added.end(),
                                    [id = id](const AddedToken& token) { return token.id == id; });
    std::string bytes = byte_level_bytes(spelling).value_or(spelling);
    if (added != definition.added.end() && added->content == spelling) bytes = spelling;
    if (definition.ignore_merges) made->words_.emplace(bytes, id);
    LLMTRAIN_TRY(made->set_entry(id, std::move(bytes), false));
  }
  std::vector<AddedToken> raw, normalized;
  bool spans_words = false;
  for (AddedToken& token : definition.added) {
    LLMTRAIN_TRY(made->set_entry(token.id, token.content, token.special));
    if (token.normalized && definition.nfc && valid_utf8_prefix(token.content) == token.content.size()) {
      token.content = to_nfc(token.content);
    }
    spans_words |=
        !token.special && (token.lstrip || token.rstrip || token.content.find(' ') != std::string::npos);
    (token.normalized ? normalized : raw).push_back(token);
  }
  made->eod_id_ = find_eod(definition);
  made->bos_id_ = definition.bos_id;
  made->raw_added_ = std::make_unique<AddedTokenMatcher>(std::move(raw));
  made->normalized_added_ = std::make_unique<AddedTokenMatcher>(std::move(normalized));
  made->nfc_ = definition.nfc;
  made->add_prefix_space_ = definition.add_prefix_space;
  made->cuts_at_words_ = definition.splits.size() == 1 && !spans_words;
  for (const SplitRule& rule : definition.splits) {
    const auto gaps = rule.drop_gaps ? SplitPattern::Gaps::kDrop : SplitPattern::Gaps::kKeep;
    auto pattern = SplitPattern::compile(rule.regex, gaps, rule.literal);
    if (!pattern) return contradiction(definition.name, to_string(pattern.error()));
    made->splits_.push_back(std::move(pattern).value());
    made->cuts_at_words_ &=
        rule.regex == kGpt2Pattern || rule.regex == kLlama3Pattern || rule.regex == kQwen2Pattern;
  }
  return std::shared_ptr<const BpeTokenizer>(std::move(made));
}

std::optional<std::int32_t> BpeTokenizer::id_of(std::string_view token) const {
  for (const auto* matcher : {raw_added_.get(), normalized_added_.get()}) {
    for (const AddedToken& added : matcher->tokens()) {
      if (added.content == token) return added.id;
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> BpeTokenizer::bytes_of(std::int32_t id) const {
  if (id < 0 || id >= vocab_size() || !bytes_[static_cast<std::size_t>(id)].known) return std::nullopt;
  return bytes_[static_cast<std::size_t>(id)].bytes;
}

bool BpeTokenizer::is_special(std::int32_t id) const {
  return id >= 0 && id < vocab_size() && bytes_[static_cast<std::size_t>(id)].special;
}

// Between an ASCII letter and a space every known pattern ends a piece, whatever follows.
std::size_t BpeTokenizer::safe_cut(std::string_view text, std::size_t target) const {
  return cuts_at_words_ ? cut_before_space(text, target) : 0;
}

}  // namespace llmtrain
