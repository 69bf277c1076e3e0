#include "llmtrain/data/added_tokens.hpp"

#include <algorithm>

#include <utf8proc.h>

#include "llmtrain/data/utf8.hpp"

namespace llmtrain {
namespace {

// The character that ends at `end`; no bytes when there is none or it is not valid UTF-8.
CodePoint character_before(std::string_view text, std::size_t end) {
  for (std::size_t length = 1; length <= 4 && length <= end; ++length) {
    const CodePoint point = decode_utf8(text.substr(end - length, length));
    if (point.bytes == static_cast<int>(length)) return point;
  }
  return {};
}

bool is_word_character(CodePoint point) {
  if (point.bytes == 0) return false;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(point.value))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
  }
}

bool is_space(CodePoint point) {
  return point.bytes > 0 && is_unicode_space(point.value);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.content.size() > b.content.size();
  });
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].content.empty())
      by_first_[static_cast<unsigned char>(tokens_[i].content[0])].push_back(i);
  }
}

const AddedToken* AddedTokenMatcher::match(std::string_view input,
                                           std::size_t at,
                                           SpecialText special) const {
  for (const std::size_t i : by_first_[static_cast<unsigned char>(input[at])]) {
    const AddedToken& token = tokens_[i];
    if (token.special && special == SpecialText::kPlain) continue;
    if (input.substr(at, token.content.size()) == token.content) return &token;
  }
  return nullptr;
}

Status AddedTokenMatcher::scan(std::string_view input,
                               SpecialText special,
                               const std::function<Status(std::string_view)>& text,
                               const std::function<void(const AddedToken&)>& token) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < input.size();) {
    const AddedToken* found = match(input, at, special);
    if (found == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + found->content.size();
    at = end;
    const bool in_word = is_word_character(character_before(input, begin)) ||
                         is_word_character(decode_utf8(input.substr(end)));
    if (found->single_word && in_word) continue;
    while (found->lstrip && begin > done && is_space(character_before(input, begin))) {
      begin -= static_cast<std::size_t>(character_before(input, begin).bytes);
    }
    while (found->rstrip && is_space(decode_utf8(input.substr(end)))) {
      end += static_cast<std::size_t>(decode_utf8(input.substr(end)).bytes);
    }
    if (begin > done) LLMTRAIN_TRY(text(input.substr(done, begin - done)));
    token(*found);
    done = at = end;
  }
  if (done < input.size()) return text(input.substr(done));
  return ok_status();
}

}  // namespace llmtrain
