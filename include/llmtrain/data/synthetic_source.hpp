#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmtrain/data/token_source.hpp"

// A small language made of arithmetic: `path: synthetic`, so that a job runs without any data file.
//
// About a million tokens in documents of 16 to 271. Each token is, seven times out of eight, an
// affine function of the one before, so that a model can learn it to about 1.1 nats; the last token
// of a document is vocab_size - 1. A pure function of (seed, vocab_size, valid): docs/DATA.md gives
// the recipe in ten lines.
namespace llmtrain {

class SyntheticSource final : public TokenSource {
 public:
  static Result<SyntheticSource> make(const SyntheticOptions& options);

  const std::string& name() const override { return name_; }
  std::int64_t num_tokens() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t num_documents() const override { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::int64_t document_begin(std::int64_t document) const override;
  Status read(std::int64_t offset, std::span<std::int32_t> out) const override;
  std::uint64_t fingerprint() const override;

 private:
  std::string name_ = "synthetic";
  SyntheticOptions options_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> begins_;
};

}  // namespace llmtrain
