#include "llmtrain/train/eval_stream.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include "llmtrain/core/division.hpp"
#include "llmtrain/data/text_input.hpp"
#include "llmtrain/train/error.hpp"

namespace llmtrain {
namespace {
namespace fs = std::filesystem;

// A tokenized text as a stream.
class TextSource final : public TokenSource {
 public:
  // `begins`: of every document, and the end of the last.
  TextSource(std::string name, std::vector<std::int32_t> tokens, std::vector<std::int64_t> begins)
      : name_(std::move(name)), tokens_(std::move(tokens)), begins_(std::move(begins)) {}

  const std::string& name() const override { return name_; }
  std::int64_t num_tokens() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t num_documents() const override { return std::ssize(begins_) - 1; }
  std::int64_t document_begin(std::int64_t document) const override {
    return begins_[static_cast<std::size_t>(document)];
  }
  Status read(std::int64_t offset, std::span<std::int32_t> out) const override {
    std::copy_n(tokens_.begin() + offset, out.size(), out.begin());
    return ok_status();
  }
  std::uint64_t fingerprint() const override { return tokens_.size(); }

 private:
  std::string name_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> begins_;
};

bool is_text(const std::string& path) {
  return fs::path(path).has_extension() && text_kind_of(path).ok();  // a bare name is that of token files
}

// Every text of the file, one end-of-document token after each.
std::shared_ptr<const TokenSource> open_text(const std::string& path, const Tokenizer& tokenizer) {
  TextInput input = value_or_throw(TextInput::open(
      {path}, [&](std::string_view text, std::size_t target) { return tokenizer.safe_cut(text, target); }));
  const auto encoder = tokenizer.make_encoder();
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> begins = {0};
  TextCounts counts;
  while (const auto piece = input.next())
    value_or_throw(visit_texts(*piece, {}, counts, [&](std::string_view text, bool ends_document) -> Status {
      LLMTRAIN_TRY(encoder->encode(text, SpecialText::kPlain, ids));
      if (ends_document && tokenizer.eod_id()) ids.push_back(*tokenizer.eod_id());
      if (ends_document) begins.push_back(std::ssize(ids));
      return ok_status();
    }));
  if (begins.back() != std::ssize(ids)) begins.push_back(std::ssize(ids));
  return std::make_shared<TextSource>(path, std::move(ids), std::move(begins));
}

// Token files need no tokenizer to be scored, only to know their bytes.
std::shared_ptr<const Tokenizer> tokenizer_if_any(const LoadedModel& loaded, const EvalRequest& request) {
  if (request.tokenizer.empty() && loaded.spec.data.tokenizer.empty()) return nullptr;
  return tokenizer_for(loaded, request.step_dir, request.tokenizer);
}

}  // namespace

EvalStream::EvalStream(std::shared_ptr<const TokenSource> source,
                       std::shared_ptr<const Tokenizer> tokenizer,
                       const JobSpec& spec)
    : source_(std::move(source)),
      tokenizer_(std::move(tokenizer)),
      seq_length_(spec.data.seq_length),
      vocab_size_(spec.model.vocab_size),
      document_mask_(spec.data.document_mask) {}

EvalStream EvalStream::open(const LoadedModel& loaded, const EvalRequest& request) {
  if (is_text(request.data)) {
    auto tokenizer = tokenizer_for(loaded, request.step_dir, request.tokenizer);
    auto source = open_text(request.data, *tokenizer);
    return {std::move(source), std::move(tokenizer), loaded.spec};
  }
  const SyntheticOptions synthetic{
      .seed = loaded.spec.run.seed, .vocab_size = loaded.spec.model.vocab_size, .valid = true};
  auto source = value_or_throw(open_token_source(request.data, synthetic));
  return {std::move(source), tokenizer_if_any(loaded, request), loaded.spec};
}

MicroBatch EvalStream::next(std::int64_t rows) {
  const std::int64_t labels_left = std::max<std::int64_t>(0, source_->num_tokens() - 1 - cursor_);
  rows = std::min(rows, ceil_div(labels_left, seq_length_));
  MicroBatch batch{.tokens = at::empty({rows, seq_length_}, at::kLong),                 // [b, s]
                   .labels = at::full({rows, seq_length_}, kIgnoredLabel, at::kLong)};  // [b, s]
  batch.tokens.zero_();
  auto* tokens = batch.tokens.mutable_data_ptr<std::int64_t>();
  auto* labels = batch.labels.mutable_data_ptr<std::int64_t>();
  std::vector<std::int32_t> window;
  for (std::int64_t row = 0; row < rows; ++row, cursor_ += seq_length_) {
    const std::int64_t count = std::min(seq_length_, source_->num_tokens() - 1 - cursor_);
    if (document_mask_) batch.documents.begins.push_back(document_begins(*source_, cursor_, count));
    window.resize(static_cast<std::size_t>(count + 1));
    value_or_throw(source_->read(cursor_, window));
    for (const std::int32_t id : window)
      if (id < 0 || id >= vocab_size_)
        throw ErrorException({ErrorCode::kData,
                              fmt::format("{} holds the token id {}; this model's vocabulary has {}",
                                          source_->name(),
                                          id,
                                          vocab_size_),
                              "score data that was made with the checkpoint's tokenizer"});
    std::copy_n(window.begin(), count, tokens + row * seq_length_);
    std::copy_n(window.begin() + 1, count, labels + row * seq_length_);
    if (tokenizer_) bytes_ += tokenizer_->decoded_bytes(std::span(window).subspan(1));
  }
  return batch;
}

}  // namespace llmtrain
