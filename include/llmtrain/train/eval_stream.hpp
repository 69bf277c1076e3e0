#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "llmtrain/data/token_source.hpp"
#include "llmtrain/data/tokenizer.hpp"
#include "llmtrain/job/inference_request.hpp"
#include "llmtrain/model/model_chunk.hpp"
#include "llmtrain/train/loaded_model.hpp"

// What `eval` scores: every token of a stream but its first, each once, in windows of the model's
// sequence length. A window begins with the last token of the one before it; the last one is padded with
// labels that do not count. Token files are read window by window, a text is tokenized as a whole.
namespace llmtrain {

class EvalStream {
 public:
  // Throws ErrorException.
  static EvalStream open(const LoadedModel& loaded, const EvalRequest& request);

  // At most `rows` windows; none at the end.
  MicroBatch next(std::int64_t rows);
  // Bytes of text that the tokens handed out as labels stand for; 0 when no tokenizer tells.
  std::int64_t bytes() const { return bytes_; }

 private:
  EvalStream(std::shared_ptr<const TokenSource> source,
             std::shared_ptr<const Tokenizer> tokenizer,
             const JobSpec& spec);

  std::shared_ptr<const TokenSource> source_;   // shared with nobody; the data module hands it out so
  std::shared_ptr<const Tokenizer> tokenizer_;  // may be null
  std::int64_t seq_length_;
  std::int64_t vocab_size_;
  bool document_mask_;
  std::int64_t cursor_ = 0;  // first token of the next window
  std::int64_t bytes_ = 0;
};

}  // namespace llmtrain
