#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"

// Bytes to token ids and back. docs/DATA.md states the rules; tests compare ids with Hugging Face's.
//
// A tokenizer is immutable and shared by threads; an Encoder (its caches) belongs to one thread.
// Encoding adds no token of its own: no BOS, no EOD, no template. Bytes that are not valid UTF-8 are
// encoded one by one, so decoding gives them back.
namespace llmtrain {

// What the text of a special token in the input means: just text (corpora), or the token (prompts).
enum class SpecialText { kPlain, kToken };

class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of one text. Fails only when the vocabulary lacks one of its bytes.
  virtual Status encode(std::string_view text, SpecialText special, std::vector<std::int32_t>& ids) = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // For messages and provenance: the path, or `bytes`.
  virtual const std::string& name() const = 0;
  // Every id is in [0, vocab_size); padding a model's vocabulary is the model's business.
  virtual std::int64_t vocab_size() const = 0;
  // Ends a document; absent when the tokenizer has no such token.
  virtual std::optional<std::int32_t> eod_id() const = 0;
  // Begins a text, when the tokenizer's template has such a token.
  virtual std::optional<std::int32_t> bos_id() const = 0;
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;  // of a special token

  virtual std::unique_ptr<Encoder> make_encoder() const = 0;

  // The bytes of one token; a special token's are its text. An unknown id is absent.
  virtual std::optional<std::string_view> bytes_of(std::int32_t id) const = 0;
  virtual bool is_special(std::int32_t id) const = 0;

  // The largest cut in (begin, target] of `text` such that encoding the parts equals encoding the
  // whole; 0 when there is none. Lets one huge document be encoded by several threads.
  virtual std::size_t safe_cut(std::string_view text, std::size_t target) const = 0;

  Result<std::vector<std::int32_t>> encode(std::string_view text, SpecialText special) const;
  // Special tokens are left out unless asked for. An id outside the vocabulary is an error.
  Result<std::string> decode(std::span<const std::int32_t> ids, bool with_special = false) const;
  // Text bytes that these ids stand for; special and unknown ids count nothing. For bits per byte.
  std::int64_t decoded_bytes(std::span<const std::int32_t> ids) const;
};

// Puts BOS before and EOD after `ids`, where asked for and where the tokenizer has them, never twice.
void add_borders(const Tokenizer& tokenizer, bool bos, bool eod, std::vector<std::int32_t>& ids);

// `bytes`, or a file or directory recognised by its content: tokenizer.json, or GPT-2's vocab.bpe and
// encoder.json (merges.txt and vocab.json). Unsupported parts are refused by name.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& path);

}  // namespace llmtrain
