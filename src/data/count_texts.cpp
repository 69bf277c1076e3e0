#include "llmtrain/data/count_texts.hpp"

#include "llmtrain/data/ordered_parallel.hpp"

namespace llmtrain {
namespace {

struct CountedPiece {
  WordCounts words;
  TextCounts texts;
  std::int64_t file_bytes = 0;
};

Result<CountedPiece> count_piece(const TextRules& rules, const TextPiece& piece) {
  CountedPiece counted;
  counted.file_bytes = static_cast<std::int64_t>(piece.text.size());
  LLMTRAIN_TRY(piece.file->check_size());
  LLMTRAIN_TRY(visit_texts(piece, rules, counted.texts, [&](std::string_view text, bool) {
    return count_words(text, counted.words);
  }));
  return counted;
}

}  // namespace

Status count_texts(TextInput& input,
                   const TextRules& rules,
                   int num_threads,
                   const std::function<void(std::int64_t)>& progress,
                   WordCounts& words,
                   TextCounts& texts) {
  using Pipeline = OrderedParallel<TextPiece, CountedPiece>;
  std::int64_t bytes_done = 0;
  LLMTRAIN_TRY(Pipeline::run(
      num_threads,
      [&]() -> Result<std::optional<TextPiece>> { return input.next(); },
      [&]() -> Pipeline::Work { return [&rules](TextPiece piece) { return count_piece(rules, piece); }; },
      [&](CountedPiece piece) -> Status {
        for (const auto& [word, count] : piece.words) words[word] += count;
        texts.add(piece.texts);
        bytes_done += piece.file_bytes;
        progress(bytes_done);
        return ok_status();
      }));
  if (texts.texts > 0) return ok_status();
  return Error{ErrorCode::kData, "the input holds no text", "give files with text in them"};
}

}  // namespace llmtrain
