#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/added_tokens.hpp"

// What a byte-level BPE tokenizer's files say, checked, before anything is compiled.
namespace llmtrain {

struct SplitRule {
  std::string regex;
  bool literal = false;    // a plain string, not an expression
  bool drop_gaps = false;  // keep the matches only
};

struct TokenizerDefinition {
  std::string name;
  std::unordered_map<std::string, std::int32_t> vocab;      // by byte-level spelling
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
  std::vector<AddedToken> added;
  std::vector<SplitRule> splits;  // applied one after another
  bool nfc = false;
  bool add_prefix_space = false;
  bool ignore_merges = false;
  std::optional<std::int32_t> bos_id;
  std::string eos_token;  // from tokenizer_config.json beside it; may be empty
};

// Reads the bytes of a tokenizer.json. `name` is used in messages.
Result<TokenizerDefinition> parse_tokenizer_json(const std::string& bytes, const std::string& name);

// Reads GPT-2's two files: merges as lines of two tokens, and a JSON object of token -> id.
Result<TokenizerDefinition> parse_gpt2_files(const std::string& merges,
                                             const std::string& vocab,
                                             const std::string& name);

}  // namespace llmtrain
