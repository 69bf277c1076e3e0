#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/data/text_input.hpp"
#include "llmtrain/data/tokenizer.hpp"

// Text to token files: `llmtrain data prepare`.
//
// Each kept text becomes one document that ends with one EOD; nothing else is added. OUT holds one pair,
// tokens.bin and tokens.idx, and tokens.json, which says where they come from; with a validation split,
// OUT/train and OUT/valid hold a pair each. Output does not depend on the number of threads.
namespace llmtrain {

struct PrepareOptions {
  std::vector<std::string> inputs;
  std::shared_ptr<const Tokenizer> tokenizer;  // shared by the threads
  std::int32_t eod_id = 0;
  std::string out;
  double valid_fraction = 0;
  TextRules rules;
  bool overwrite = false;
  int num_threads = 1;
  std::function<void(std::int64_t bytes_done, std::int64_t bytes_total)> progress;
};

// Also the content of tokens.json, beside the pair.
struct TokenFileSummary {
  std::string prefix;
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;  // EODs included
  std::int64_t text_bytes = 0;  // that the tokens decode to
  double bits_per_token = 0;    // unigram entropy of the tokens
  double bytes_per_token() const {
    return num_tokens == 0 ? 0 : static_cast<double>(text_bytes) / static_cast<double>(num_tokens);
  }
  double bits_per_byte() const {
    return text_bytes == 0
               ? 0
               : bits_per_token * static_cast<double>(num_tokens) / static_cast<double>(text_bytes);
  }
};

struct PrepareReport {
  TextCounts texts;
  std::vector<TokenFileSummary> splits;  // one without a name, or train and valid
};

Result<PrepareReport> prepare(FileSystem& files, const PrepareOptions& options);

// What the tokens.json beside a pair says; absent when there is none.
struct Provenance {
  std::string tokenizer;
  std::int64_t vocab_size = 0;
  std::int32_t eod_id = 0;
  std::int64_t text_bytes = 0;
  double bits_per_token = 0;
};
Result<std::optional<Provenance>> read_provenance(FileSystem& files, const std::string& prefix);

}  // namespace llmtrain
