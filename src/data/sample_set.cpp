#include "llmtrain/data/sample_set.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

Result<SampleSet> SampleSet::make(std::vector<SourceRange> ranges, Options options) {
  LLMTRAIN_CHECK(options.seq_length >= 1, "seq_length {}", options.seq_length);
  if (ranges.empty()) {
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("the {} split has no source", options.split),
                 fmt::format("name token files, or `synthetic`, under data.{}", options.split)};
  }
  std::vector<SourceShape> shapes;
  for (const SourceRange& range : ranges) {
    const std::int64_t n = llmtrain::num_samples(range.num_tokens(), options.seq_length);
    if (n == 0) {
      return Error{ErrorCode::kData,
                   fmt::format("the {} split of {} holds {} tokens; one sample of seq_length {} needs {}",
                               options.split,
                               range.source->name(),
                               range.num_tokens(),
                               options.seq_length,
                               options.seq_length + 1),
                   "give more data, lower data.seq_length, or change how the split is made"};
    }
    shapes.push_back({range.source->name(), n, range.weight, range.max_epochs});
  }
  LLMTRAIN_ASSIGN(order, SampleOrder::make(std::move(shapes), options.seed, options.kind));
  return SampleSet(std::move(ranges), std::move(options), std::move(order));
}

SampleSet::SampleSet(std::vector<SourceRange> ranges, Options options, SampleOrder order)
    : ranges_(std::move(ranges)), options_(std::move(options)), order_(std::move(order)) {
  first_ids_.push_back(0);
  for (const SourceRange& range : ranges_) {
    first_ids_.push_back(first_ids_.back() + llmtrain::num_samples(range.num_tokens(), options_.seq_length));
  }
}

std::int64_t SampleSet::num_tokens() const {
  std::int64_t sum = 0;
  for (const SourceRange& range : ranges_) sum += range.num_tokens();
  return sum;
}

Status SampleSet::read(const SampleRef& ref, std::span<std::int32_t> out) const {
  LLMTRAIN_CHECK(std::ssize(out) == options_.seq_length + 1, "room for {} tokens", out.size());
  const SourceRange& range = ranges_[ref.source];
  const std::int64_t offset = range.begin + ref.sample * options_.seq_length;
  LLMTRAIN_CHECK(
      offset + std::ssize(out) <= range.end, "sample {} ends past token {}", ref.sample, range.end);
  LLMTRAIN_TRY(range.source->read(offset, out));
  const auto limit = static_cast<std::uint32_t>(options_.vocab_size);
  const auto bad = std::find_if(
      out.begin(), out.end(), [limit](std::int32_t id) { return static_cast<std::uint32_t>(id) >= limit; });
  if (bad == out.end()) return ok_status();
  return Error{ErrorCode::kData,
               fmt::format("{}: token {} has id {}; model.vocab_size {} allows 0 to {}",
                           range.source->name(),
                           offset + (bad - out.begin()),
                           *bad,
                           options_.vocab_size,
                           options_.vocab_size - 1),
               "raise model.vocab_size to the tokenizer's, or prepare the data with the model's tokenizer"};
}

std::vector<std::int64_t> SampleSet::document_begins(const SampleRef& ref) const {
  const SourceRange& range = ranges_[ref.source];
  const std::int64_t offset = range.begin + ref.sample * options_.seq_length;
  return llmtrain::document_begins(*range.source, offset, options_.seq_length);
}

}  // namespace llmtrain
