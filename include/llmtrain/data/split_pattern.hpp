#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"

// A regular expression that cuts text into pre-tokens, compiled by PCRE2 with its JIT.
//
// Patterns are those of tokenizer.json (Oniguruma's syntax as far as PCRE2 shares it; \s is Unicode's
// White_Space). The text must be valid UTF-8. Immutable and shared by threads.
namespace llmtrain {

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The last place up to `target` where a space follows an ASCII letter; 0 when there is none. None of
// these patterns has a piece that spans it, whatever comes before and after.
std::size_t cut_before_space(std::string_view text, std::size_t target);

class SplitPattern {
 public:
  enum class Gaps { kKeep, kDrop };  // what becomes of text between matches

  static Result<SplitPattern> compile(std::string_view regex, Gaps gaps, bool literal = false);

  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  const std::string& regex() const { return regex_; }
  // Calls `piece` for each non-empty piece, in order.
  Status split(std::string_view text, const std::function<Status(std::string_view)>& piece) const;

 private:
  struct Compiled;
  SplitPattern();

  std::string regex_;
  Gaps gaps_ = Gaps::kKeep;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace llmtrain
