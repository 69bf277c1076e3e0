#include "llmtrain/train/open_data.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace llmtrain {
namespace {

std::vector<SourceConfig> sources(const std::vector<DataSourceSpec>& specs) {
  std::vector<SourceConfig> out;
  for (const DataSourceSpec& spec : specs)
    out.push_back({.path = spec.path, .weight = spec.weight, .max_epochs = spec.max_epochs});
  return out;
}

}  // namespace

CorpusConfig corpus_config(const JobSpec& spec) {
  return {.train = sources(spec.data.train),
          .valid = sources(spec.data.valid),
          .valid_fraction = spec.data.valid_fraction,
          .seq_length = spec.data.seq_length,
          .vocab_size = spec.model.vocab_size,
          .seed = spec.run.seed};
}

Result<std::vector<ExtraFile>> tokenizer_copy(const JobSpec& spec) {
  std::vector<ExtraFile> files;
  if (spec.data.tokenizer.empty() || spec.data.tokenizer == "bytes") return files;
  std::filesystem::path path = spec.data.tokenizer;
  if (std::filesystem::is_directory(path)) path /= "tokenizer.json";
  std::ifstream stream(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream)
    return Error{ErrorCode::kNotFound,
                 fmt::format("data.tokenizer = {}: cannot read {}", spec.data.tokenizer, path.string()),
                 "give a tokenizer.json, a directory that holds one, or `bytes`"};
  files.push_back({.name = "tokenizer.json", .contents = std::move(text)});
  return files;
}

}  // namespace llmtrain
