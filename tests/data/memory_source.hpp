#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "llmtrain/data/token_source.hpp"

// A token source in memory for tests; one document unless borders are given.
namespace llmtrain::test {

class MemorySource final : public TokenSource {
 public:
  explicit MemorySource(std::vector<std::int32_t> tokens,
                        std::vector<std::int64_t> begins = {},
                        std::string name = "memory")
      : tokens_(std::move(tokens)), begins_(std::move(begins)), name_(std::move(name)) {
    if (begins_.empty()) begins_ = {0, num_tokens()};
  }

  const std::string& name() const override { return name_; }
  std::int64_t num_tokens() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t num_documents() const override { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::int64_t document_begin(std::int64_t document) const override {
    return begins_.at(static_cast<std::size_t>(document));
  }
  Status read(std::int64_t offset, std::span<std::int32_t> out) const override {
    std::copy_n(tokens_.begin() + offset, out.size(), out.begin());
    return ok_status();
  }
  std::uint64_t fingerprint() const override { return tokens_.size(); }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> begins_;
  std::string name_;
};

// 0, 1, 2, ...: a token tells its own position.
inline std::vector<std::int32_t> counting(std::int64_t n) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) tokens[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
  return tokens;
}

}  // namespace llmtrain::test
