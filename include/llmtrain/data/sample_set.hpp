#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/sample_order.hpp"
#include "llmtrain/data/token_source.hpp"

// Token sources cut into samples, in their order: global sample index -> the tokens of that sample.
//
// Sample i of a source is its tokens [i*S, i*S + S], S inputs and the label of the last one. A token
// outside [0, vocab_size) is an error that names source and position.
namespace llmtrain {

// A stretch of a source's tokens; a validation split shares the source with its training split.
struct SourceRange {
  // Shared with the other split of the same files, and with the prefetch thread.
  std::shared_ptr<const TokenSource> source;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  double weight = 1.0;
  std::optional<double> max_epochs;

  std::int64_t num_tokens() const { return end - begin; }
};

class SampleSet {
 public:
  struct Options {
    std::int64_t seq_length = 0;
    std::int64_t vocab_size = 0;
    std::uint64_t seed = 0;
    SampleOrder::Kind kind = SampleOrder::Kind::kShuffled;
    std::string split = "train";  // for messages
  };

  static Result<SampleSet> make(std::vector<SourceRange> ranges, Options options);

  std::int64_t seq_length() const { return options_.seq_length; }
  std::int64_t num_samples() const { return first_ids_.back(); }  // of one epoch of every source
  std::int64_t num_tokens() const;
  std::optional<std::int64_t> size() const { return order_.size(); }  // absent: endless
  const std::vector<SourceRange>& ranges() const { return ranges_; }

  SampleRef at(std::int64_t index) const { return order_.at(index); }
  // A number of its own for each sample: sources one after another, in the order of the list.
  std::int64_t sample_id(const SampleRef& ref) const { return first_ids_[ref.source] + ref.sample; }
  // Fills the seq_length + 1 tokens of one sample.
  Status read(const SampleRef& ref, std::span<std::int32_t> out) const;
  // As the free function, of the seq_length tokens of one sample.
  std::vector<std::int64_t> document_begins(const SampleRef& ref) const;

 private:
  SampleSet(std::vector<SourceRange> ranges, Options options, SampleOrder order);

  std::vector<SourceRange> ranges_;
  Options options_;
  SampleOrder order_;
  std::vector<std::int64_t> first_ids_;
};

}  // namespace llmtrain
