#include "llmtrain/data/corpus.hpp"

#include <fmt/format.h>

#include "llmtrain/data/hash.hpp"

namespace llmtrain {
namespace {

Result<std::vector<SourceRange>> open_ranges(const std::vector<SourceConfig>& sources,
                                             const CorpusConfig& config,
                                             bool valid) {
  std::vector<SourceRange> ranges;
  for (const SourceConfig& wanted : sources) {
    LLMTRAIN_ASSIGN(source, open_token_source(wanted.path, {config.seed, config.vocab_size, valid}));
    const std::int64_t end = source->num_tokens();
    ranges.push_back({std::move(source), 0, end, wanted.weight, wanted.max_epochs});
  }
  return ranges;
}

// Takes the tail of every training range.
Result<std::vector<SourceRange>> hold_out(std::vector<SourceRange>& train, const CorpusConfig& config) {
  if (!(config.valid_fraction < 1)) {
    return Error{
        ErrorCode::kInvalidSpec,
        fmt::format("data.valid_fraction is {}; allowed is 0 (none) to below 1", config.valid_fraction),
        "hold out a small share, such as 0.01"};
  }
  std::vector<SourceRange> valid;
  for (SourceRange& range : train) {
    SourceRange held = range;
    held.begin = split_point(*range.source, config.valid_fraction);
    held.max_epochs.reset();
    range.end = held.begin;
    valid.push_back(std::move(held));
  }
  return valid;
}

std::uint64_t fingerprint_of(const std::vector<SourceRange>& train, const std::vector<SourceRange>& valid) {
  std::uint64_t hash = train.size();
  for (const auto* ranges : {&train, &valid}) {
    for (const SourceRange& range : *ranges) {
      hash = combine64(hash, range.source->fingerprint());
      hash = combine64(combine64(hash, static_cast<std::uint64_t>(range.begin)),
                       static_cast<std::uint64_t>(range.end));
    }
  }
  return hash;
}

}  // namespace

Result<Corpus> open_corpus(const CorpusConfig& config) {
  LLMTRAIN_ASSIGN(train, open_ranges(config.train, config, false));
  LLMTRAIN_ASSIGN(valid, open_ranges(config.valid, config, true));
  if (valid.empty() && config.valid_fraction != 0) {
    LLMTRAIN_ASSIGN(held, hold_out(train, config));
    valid = std::move(held);
  }
  Corpus corpus;
  corpus.fingerprint = fingerprint_of(train, valid);
  SampleSet::Options options{
      config.seq_length, config.vocab_size, config.seed, SampleOrder::Kind::kShuffled, "train"};
  LLMTRAIN_ASSIGN(train_set, SampleSet::make(std::move(train), options));
  corpus.train = std::make_shared<SampleSet>(std::move(train_set));
  if (valid.empty()) return corpus;
  for (SourceRange& range : valid) {
    if (!range.max_epochs || *range.max_epochs > 1) range.max_epochs = 1.0;
  }
  options.kind = SampleOrder::Kind::kSequential;
  options.split = "valid";
  LLMTRAIN_ASSIGN(valid_set, SampleSet::make(std::move(valid), options));
  corpus.valid = std::make_shared<SampleSet>(std::move(valid_set));
  return corpus;
}

}  // namespace llmtrain
