#include "llmtrain/data/synthetic_source.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/philox.hpp"
#include "llmtrain/data/hash.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kTrainDocuments = 8192;
constexpr std::int64_t kValidDocuments = 512;
constexpr std::int64_t kMaxStates = 256;
constexpr std::uint32_t kNoiseBelow = 1u << 29;  // of 2^32: one token in eight is drawn anew

// The smallest of these primes that keeps `x -> factor * x + 3` a bijection of the states.
std::int64_t factor_for(std::int64_t states) {
  for (const std::int64_t prime : {5, 7, 11, 13}) {
    if (states % prime != 0) return prime;
  }
  return 1;  // not reached: 5 * 7 * 11 is more than kMaxStates
}

void append_document(const SyntheticOptions& options,
                     std::int64_t document,
                     std::vector<std::int32_t>& tokens) {
  const std::int64_t states = std::min(options.vocab_size - 1, kMaxStates);
  const std::int64_t stride = (options.vocab_size - 1) / states;
  const std::int64_t factor = factor_for(states);
  const std::uint64_t stream =
      (options.valid ? std::uint64_t{1} << 32 : 0) + static_cast<std::uint64_t>(document);

  const std::int64_t length = 16 + philox(options.seed, 0, stream)[2] % 256;
  std::int64_t state = 0;
  for (std::int64_t position = 0; position + 1 < length; ++position) {
    const auto random = philox(options.seed, static_cast<std::uint64_t>(position), stream);
    const bool drawn = position == 0 || random[0] < kNoiseBelow;
    state = drawn ? random[1] % states : (factor * state + 3) % states;
    tokens.push_back(static_cast<std::int32_t>(state * stride));
  }
  tokens.push_back(static_cast<std::int32_t>(options.vocab_size - 1));
}

}  // namespace

Result<SyntheticSource> SyntheticSource::make(const SyntheticOptions& options) {
  if (options.vocab_size < 2 || options.vocab_size > INT32_MAX) {
    return Error{ErrorCode::kData,
                 fmt::format("synthetic data with a vocabulary of {} ids; allowed are 2 to 2147483647",
                             options.vocab_size),
                 "set model.vocab_size"};
  }
  SyntheticSource source;
  source.options_ = options;
  const std::int64_t documents = options.valid ? kValidDocuments : kTrainDocuments;
  source.begins_.push_back(0);
  for (std::int64_t document = 0; document < documents; ++document) {
    append_document(options, document, source.tokens_);
    source.begins_.push_back(source.num_tokens());
  }
  return source;
}

std::int64_t SyntheticSource::document_begin(std::int64_t document) const {
  LLMTRAIN_CHECK(
      0 <= document && document <= num_documents(), "document {} of {}", document, num_documents());
  return begins_[static_cast<std::size_t>(document)];
}

Status SyntheticSource::read(std::int64_t offset, std::span<std::int32_t> out) const {
  LLMTRAIN_CHECK(offset >= 0 && offset + std::ssize(out) <= num_tokens(),
                 "tokens [{}, {}) of {}",
                 offset,
                 offset + std::ssize(out),
                 num_tokens());
  std::copy_n(tokens_.begin() + offset, out.size(), out.begin());
  return ok_status();
}

std::uint64_t SyntheticSource::fingerprint() const {
  const std::uint64_t vocabulary = static_cast<std::uint64_t>(options_.vocab_size);
  return combine64(combine64(options_.seed, vocabulary), options_.valid ? 1 : 0);
}

}  // namespace llmtrain
