#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/data/bpe_tokenizer.hpp"
#include "llmtrain/data/byte_tokenizer.hpp"
#include "llmtrain/data/mapped_file.hpp"
#include "llmtrain/data/tokenizer.hpp"

namespace fs = std::filesystem;

namespace llmtrain {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{256} << 20;
constexpr const char* kAllowed =
    "allowed are `bytes`, a tokenizer.json, or GPT-2's vocab.bpe and encoder.json";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Result<std::string> read_text(const std::string& path) {
  LLMTRAIN_ASSIGN(file, MappedFile::open(path));
  if (file.size() > kMaxBytes) {
    return Error{ErrorCode::kData,
                 fmt::format("{}: {} bytes are too many for a tokenizer", path, file.size()),
                 kAllowed};
  }
  const auto bytes = file.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// What kind of file it is, told from its bytes; names are only a convention.
enum class Content { kTokenizerJson, kVocabJson, kMerges, kSentencePiece, kTiktoken, kUnknown };

Content recognise(const std::string& bytes) {
  const std::size_t start = bytes.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) return Content::kUnknown;
  if (bytes.starts_with("#version")) return Content::kMerges;
  if (bytes[start] == '{') {
    const auto has = [&](const char* key) { return bytes.find(key) != std::string::npos; };
    return has("\"model\"") && has("\"vocab\"") ? Content::kTokenizerJson : Content::kVocabJson;
  }
  if (bytes[0] == '\n' && bytes.size() > 2) return Content::kSentencePiece;  // field 1 of its protobuf
  const std::string line = bytes.substr(0, std::min(bytes.find('\n'), bytes.size()));
  const std::size_t space = line.find(' ');
  const bool rank =
      space != std::string::npos && line.find_first_not_of("0123456789\r", space + 1) == std::string::npos;
  return rank && space + 1 < line.size() ? Content::kTiktoken : Content::kUnknown;
}

// The eos_token of tokenizer_config.json, when there is such a file beside the tokenizer.
std::string eos_token_beside(const fs::path& directory) {
  const fs::path path = directory / "tokenizer_config.json";
  if (!is_file(path)) return "";
  const auto bytes = read_text(path.string());
  if (!bytes) return "";
  const auto config = nlohmann::json::parse(*bytes, nullptr, false);
  if (!config.is_object() || !config.contains("eos_token")) return "";
  const auto& token = config["eos_token"];
  if (token.is_string()) return token.get<std::string>();
  const bool spelled_out = token.is_object() && token.contains("content") && token["content"].is_string();
  return spelled_out ? token["content"].get<std::string>() : "";
}

Result<std::shared_ptr<const Tokenizer>> finish(TokenizerDefinition definition, const fs::path& directory) {
  definition.eos_token = eos_token_beside(directory);
  LLMTRAIN_ASSIGN(tokenizer, BpeTokenizer::make(std::move(definition)));
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Result<std::shared_ptr<const Tokenizer>> load_gpt2(const fs::path& directory) {
  for (const auto& [merges, vocab] :
       {std::pair{"vocab.bpe", "encoder.json"}, std::pair{"merges.txt", "vocab.json"}}) {
    if (!is_file(directory / merges) || !is_file(directory / vocab)) continue;
    LLMTRAIN_ASSIGN(merge_text, read_text((directory / merges).string()));
    LLMTRAIN_ASSIGN(vocab_text, read_text((directory / vocab).string()));
    LLMTRAIN_ASSIGN(definition, parse_gpt2_files(merge_text, vocab_text, directory.string()));
    return finish(std::move(definition), directory);
  }
  return Error{
      ErrorCode::kNotFound,
      fmt::format(
          "{}: holds neither tokenizer.json, nor vocab.bpe and encoder.json, nor merges.txt and vocab.json",
          directory.string()),
      kAllowed};
}

Result<std::shared_ptr<const Tokenizer>> load_file(const fs::path& path) {
  LLMTRAIN_ASSIGN(bytes, read_text(path.string()));
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const auto refuse = [&](const char* what) {
    return Error{ErrorCode::kUnsupported, fmt::format("{}: {}", path.string(), what), kAllowed};
  };
  switch (recognise(bytes)) {
    case Content::kTokenizerJson: {
      LLMTRAIN_ASSIGN(definition, parse_tokenizer_json(bytes, path.string()));
      return finish(std::move(definition), directory);
    }
    case Content::kVocabJson:
    case Content::kMerges: return load_gpt2(directory);
    case Content::kSentencePiece: return refuse("looks like a SentencePiece model, which is not supported");
    case Content::kTiktoken: return refuse("looks like a tiktoken rank file, which is not supported");
    case Content::kUnknown: break;
  }
  return Error{ErrorCode::kData,
               fmt::format("{}: the content is no tokenizer that is known", path.string()),
               kAllowed};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& path) {
  if (path == "bytes") return std::shared_ptr<const Tokenizer>(std::make_shared<ByteTokenizer>());
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return load_file(path);
  if (is_file(fs::path(path) / "tokenizer.json")) return load_file(fs::path(path) / "tokenizer.json");
  return load_gpt2(path);
}

}  // namespace llmtrain
