#pragma once

#include "llmtrain/data/tokenizer.hpp"

// Each byte is its own token, 0 to 255, and 256 ends a document. Needs no file; any text works.
namespace llmtrain {

class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::int32_t kEod = 256;

  ByteTokenizer();

  const std::string& name() const override { return name_; }
  std::int64_t vocab_size() const override { return kEod + 1; }
  std::optional<std::int32_t> eod_id() const override { return kEod; }
  std::optional<std::int32_t> bos_id() const override { return std::nullopt; }
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::unique_ptr<Encoder> make_encoder() const override;
  std::optional<std::string_view> bytes_of(std::int32_t id) const override;
  bool is_special(std::int32_t id) const override { return id == kEod; }
  std::size_t safe_cut(std::string_view text, std::size_t target) const override;

 private:
  std::string name_ = "bytes";
  std::string bytes_;  // all 256 of them
};

}  // namespace llmtrain
