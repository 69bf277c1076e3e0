#include "llmtrain/data/provenance.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {
namespace {

using nlohmann::ordered_json;

ordered_json inputs_of(const PrepareOptions& options) {
  ordered_json inputs = ordered_json::array();
  for (const std::string& path : options.inputs) inputs.push_back(path);
  return inputs;
}

}  // namespace

Status write_provenance(FileSystem& files,
                        const PrepareOptions& options,
                        const TextCounts& texts,
                        const TokenFileSummary& summary) {
  const Tokenizer& tokenizer = *options.tokenizer;
  const ordered_json root = {
      {"format", "llmtrain-tokens"},
      {"version", 1},
      {"tokenizer",
       {{"name", tokenizer.name()}, {"vocab_size", tokenizer.vocab_size()}, {"eod_id", options.eod_id}}},
      {"documents", summary.num_documents},
      {"tokens", summary.num_tokens},
      {"text_bytes", summary.text_bytes},
      {"unigram_bits_per_token", summary.bits_per_token},
      {"inputs", inputs_of(options)},
      {"rules",
       {{"text_key", options.rules.text_key},
        {"strip_bom", options.rules.strip_bom},
        {"normalize_newlines", options.rules.normalize_newlines},
        {"valid_fraction", options.valid_fraction}}},
      {"all_inputs",
       {{"texts", texts.texts},
        {"bytes", texts.bytes},
        {"skipped_empty", texts.empty},
        {"skipped_blank", texts.blank},
        {"skipped_null", texts.null}}}};
  const std::string text = root.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  return write_file_durably(files, summary.prefix + ".json", text);
}

Result<std::optional<Provenance>> read_provenance(FileSystem& files, const std::string& prefix) {
  const std::string path = prefix + ".json";
  LLMTRAIN_ASSIGN(info, files.info(path));
  if (!info) return std::optional<Provenance>();
  LLMTRAIN_ASSIGN(text, read_file(files, path, 64 << 20));
  Provenance found;
  try {
    const auto root = nlohmann::json::parse(text);
    if (root.at("format") != "llmtrain-tokens") return std::optional<Provenance>();
    found.tokenizer = root.at("tokenizer").at("name").get<std::string>();
    found.vocab_size = root.at("tokenizer").at("vocab_size").get<std::int64_t>();
    found.eod_id = root.at("tokenizer").at("eod_id").get<std::int32_t>();
    found.text_bytes = root.at("text_bytes").get<std::int64_t>();
    found.bits_per_token = root.at("unigram_bits_per_token").get<double>();
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorCode::kData,
                 fmt::format("{}: not the provenance of token files: {}", path, error.what()),
                 "prepare the data again, or remove this file"};
  }
  return std::optional<Provenance>(std::move(found));
}

}  // namespace llmtrain
