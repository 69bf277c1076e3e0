#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "llmtrain/data/added_tokens.hpp"
#include "llmtrain/data/bpe_model.hpp"
#include "llmtrain/data/split_pattern.hpp"
#include "llmtrain/data/tokenizer.hpp"
#include "llmtrain/data/tokenizer_definition.hpp"

// Byte-level BPE as GPT-2, Llama 3 and Qwen use it: added tokens, NFC, split patterns, merges.
namespace llmtrain {

class BpeTokenizer final : public Tokenizer {
 public:
  // Refuses vocabularies and merges that contradict each other.
  static Result<std::shared_ptr<const BpeTokenizer>> make(TokenizerDefinition definition);

  const std::string& name() const override { return name_; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  std::optional<std::int32_t> eod_id() const override { return eod_id_; }
  std::optional<std::int32_t> bos_id() const override { return bos_id_; }
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::unique_ptr<Encoder> make_encoder() const override;
  std::optional<std::string_view> bytes_of(std::int32_t id) const override;
  bool is_special(std::int32_t id) const override;
  std::size_t safe_cut(std::string_view text, std::size_t target) const override;

 private:
  friend class BpeEncoder;
  struct Entry {
    std::string bytes;
    bool known = false;
    bool special = false;
  };

  explicit BpeTokenizer(BpeModel model) : model_(std::move(model)) {}
  Status set_entry(std::int32_t id, std::string bytes, bool special);

  std::string name_;
  BpeModel model_;
  std::vector<Entry> bytes_;                             // by id
  std::unordered_map<std::string, std::int32_t> words_;  // whole pieces; filled when merges are ignored
  std::vector<SplitPattern> splits_;
  std::unique_ptr<AddedTokenMatcher> raw_added_;         // found before normalisation
  std::unique_ptr<AddedTokenMatcher> normalized_added_;  // found after it
  bool nfc_ = false;
  bool add_prefix_space_ = false;
  bool cuts_at_words_ = false;  // every split pattern is one whose safe cuts are known
  std::optional<std::int32_t> bos_id_;
  std::optional<std::int32_t> eod_id_;
};

}  // namespace llmtrain
