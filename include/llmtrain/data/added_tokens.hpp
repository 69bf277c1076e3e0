#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/tokenizer.hpp"

// Tokens that are found in the text before it is split: leftmost, and the longest of those.
namespace llmtrain {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where its neighbours are no word characters
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;
  bool normalized = true;  // is found in the normalised text, not in the raw one
  bool special = false;    // its text means the token only where the caller says so
};

class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // Calls `text` and `token` for the parts of `input`, in order; special tokens only when `special` says so.
  Status scan(std::string_view input,
              SpecialText special,
              const std::function<Status(std::string_view)>& text,
              const std::function<void(const AddedToken&)>& token) const;
  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  const AddedToken* match(std::string_view input, std::size_t at, SpecialText special) const;

  std::vector<AddedToken> tokens_;                      // longest first
  std::array<std::vector<std::size_t>, 256> by_first_;  // indexes into tokens_, by first byte
};

}  // namespace llmtrain
