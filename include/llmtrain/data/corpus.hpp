#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/sample_set.hpp"

// What a job trains on and is judged by: the two sample sets of a data section.
//
// A validation set comes from its own sources, or from the last documents of each training source
// (`valid_fraction`), or is absent. The two never share a token. A split that cannot fill one sample
// is an error that names the split.
namespace llmtrain {

struct SourceConfig {
  std::string path;  // token files, or `synthetic`
  double weight = 1.0;
  std::optional<double> max_epochs;
};

struct CorpusConfig {
  std::vector<SourceConfig> train;
  std::vector<SourceConfig> valid;
  double valid_fraction = 0.0;
  std::int64_t seq_length = 0;
  std::int64_t vocab_size = 0;
  std::uint64_t seed = 0;
};

struct Corpus {
  std::shared_ptr<const SampleSet> train;  // shared with the prefetch thread
  std::shared_ptr<const SampleSet> valid;  // sequential, one epoch; null when there is none
  std::uint64_t fingerprint = 0;           // of all sources; nodes compare it
};

// kNotFound when a path does not exist, kData when its bytes or sizes do not do.
Result<Corpus> open_corpus(const CorpusConfig& config);

}  // namespace llmtrain
