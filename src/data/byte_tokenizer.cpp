#include "llmtrain/data/byte_tokenizer.hpp"

#include <algorithm>

namespace llmtrain {
namespace {

class ByteEncoder final : public Encoder {
 public:
  Status encode(std::string_view text, SpecialText, std::vector<std::int32_t>& ids) override {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ok_status();
  }
};

}  // namespace

ByteTokenizer::ByteTokenizer() {
  for (int byte = 0; byte < 256; ++byte) bytes_.push_back(static_cast<char>(byte));
}

std::optional<std::int32_t> ByteTokenizer::id_of(std::string_view token) const {
  if (token == "<|endoftext|>") return kEod;
  return std::nullopt;
}

std::unique_ptr<Encoder> ByteTokenizer::make_encoder() const {
  return std::make_unique<ByteEncoder>();
}

std::optional<std::string_view> ByteTokenizer::bytes_of(std::int32_t id) const {
  if (id == kEod) return std::string_view("<|endoftext|>");
  if (id < 0 || id > kEod) return std::nullopt;
  return std::string_view(bytes_).substr(static_cast<std::size_t>(id), 1);
}

// Any cut is right; one before a space leaves words, characters and line ends whole.
std::size_t ByteTokenizer::safe_cut(std::string_view text, std::size_t target) const {
  const std::size_t space = text.rfind(' ', target);
  return space == std::string_view::npos || space == 0 ? target : space;
}

}  // namespace llmtrain
