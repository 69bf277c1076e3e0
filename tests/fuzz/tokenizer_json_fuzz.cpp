#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llmtrain/data/bpe_tokenizer.hpp"

// Any bytes as a tokenizer.json: refused, or a tokenizer that encodes without a crash, and whose ids
// decode to what was encoded when no normalizer changes the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace llmtrain;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  auto definition = parse_tokenizer_json(bytes, "fuzz.json");
  if (!definition) return 0;
  for (const auto& [token, id] : definition->vocab) {
    if (id > 1 << 20) return 0;  // a sparse vocabulary: right, but slow to make
  }
  for (const AddedToken& token : definition->added) {
    if (token.id > 1 << 20) return 0;
  }
  const auto tokenizer = BpeTokenizer::make(std::move(*definition));
  if (!tokenizer) return 0;
  for (const SpecialText special : {SpecialText::kPlain, SpecialText::kToken}) {
    const std::string text = std::string("ab abc <s> \xF0\x9F\x91\xA9 \xFF 12'll\r\n") + bytes.substr(0, 64);
    const auto ids = (*tokenizer)->encode(text, special);
    if (!ids) continue;
    for (const std::int32_t id : *ids) {
      if (id < 0 || id >= (*tokenizer)->vocab_size()) std::abort();
    }
    if (!(*tokenizer)->decode(*ids, true)) std::abort();
  }
  return 0;
}
