#define PCRE2_CODE_UNIT_WIDTH 8
#include "llmtrain/data/split_pattern.hpp"

#include <algorithm>
#include <utility>

#include <pcre2.h>

#include <fmt/format.h>

namespace llmtrain {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string pcre_message(int code) {
  char text[256];
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

// PCRE2's own \s counts U+180E as white space; Unicode and the tokenizers' engine do not.
std::string with_unicode_space(std::string_view regex) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\\' && i + 1 < regex.size()) {
      const char next = regex[++i];
      const std::string set = R"(\p{Z}\t-\r\x{85})";
      if (next == 's') {
        out += in_class ? set : "[" + set + "]";
      } else if (next == 'S' && !in_class) {
        out += "[^" + set + "]";
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

std::size_t cut_before_space(std::string_view text, std::size_t target) {
  if (text.empty()) return 0;
  for (std::size_t at = std::min(target, text.size() - 1); at > 0; --at) {
    const char before = static_cast<char>(text[at - 1] | 0x20);
    if (text[at] == ' ' && before >= 'a' && before <= 'z') return at;
  }
  return 0;
}

struct SplitPattern::Compiled {
  std::unique_ptr<pcre2_code, Free> code;
};

SplitPattern::SplitPattern() : compiled_(std::make_unique<Compiled>()) {}
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

Result<SplitPattern> SplitPattern::compile(std::string_view regex, Gaps gaps, bool literal) {
  SplitPattern pattern;
  pattern.regex_ = regex;
  pattern.gaps_ = gaps;
  const std::string source = literal ? std::string(regex) : with_unicode_space(regex);
  const std::uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
  int error = 0;
  PCRE2_SIZE at = 0;
  pattern.compiled_->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), options, &error, &at, nullptr));
  if (!pattern.compiled_->code) {
    return Error{
        ErrorCode::kData,
        fmt::format("split pattern `{}`: {} at character {}", regex, pcre_message(error), at),
        "the pattern needs a feature that is not supported; the patterns of GPT-2, Llama 3 and Qwen are"};
  }
  pcre2_jit_compile(pattern.compiled_->code.get(),
                    PCRE2_JIT_COMPLETE);  // without it, matching is slower, not wrong
  return pattern;
}

Status SplitPattern::split(std::string_view text,
                           const std::function<Status(std::string_view)>& piece) const {
  const std::unique_ptr<pcre2_match_data, Free> data(
      pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto gap = [&](std::size_t begin, std::size_t end) {
    if (gaps_ == Gaps::kDrop || begin == end) return ok_status();
    return piece(text.substr(begin, end - begin));
  };
  std::size_t done = 0;  // everything before it was handed out
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int count = pcre2_match(compiled_->code.get(), subject, text.size(), at, options, data.get(), nullptr);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = pcre2_match(
          compiled_->code.get(), subject, text.size(), at, options | PCRE2_NO_JIT, data.get(), nullptr);
    }
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) {
      return Error{
          ErrorCode::kData,
          fmt::format("split pattern `{}`: {} after byte {} of the text", regex_, pcre_message(count), at),
          "cut the document into smaller ones"};
    }
    const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data.get());
    LLMTRAIN_TRY(gap(done, match[0]));
    LLMTRAIN_TRY(piece(text.substr(match[0], match[1] - match[0])));
    done = at = match[1];
  }
  return gap(done, text.size());
}

}  // namespace llmtrain
