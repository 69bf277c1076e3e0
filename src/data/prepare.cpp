#include "llmtrain/data/prepare.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/data/indexed_writer.hpp"
#include "llmtrain/data/ordered_parallel.hpp"
#include "llmtrain/data/provenance.hpp"
#include "llmtrain/data/token_statistics.hpp"

namespace llmtrain {
namespace {

struct EncodedPiece {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> document_ends;  // positions in `ids`; an EOD stands before each
  TextCounts counts;
  std::int64_t file_bytes = 0;
};

Result<EncodedPiece> encode_piece(const PrepareOptions& options, Encoder& encoder, const TextPiece& piece) {
  EncodedPiece encoded;
  encoded.file_bytes = static_cast<std::int64_t>(piece.text.size());
  LLMTRAIN_TRY(piece.file->check_size());
  const auto encode = [&](std::string_view text, bool ends_document) -> Status {
    LLMTRAIN_TRY(encoder.encode(text, SpecialText::kPlain, encoded.ids));
    if (!ends_document) return ok_status();
    encoded.ids.push_back(options.eod_id);
    encoded.document_ends.push_back(encoded.ids.size());
    return ok_status();
  };
  LLMTRAIN_TRY(visit_texts(piece, options.rules, encoded.counts, encode));
  return encoded;
}

Status write_piece(const EncodedPiece& piece, IndexedWriter& writer) {
  const std::span<const std::int32_t> ids(piece.ids);
  std::size_t begin = 0;
  for (const std::size_t end : piece.document_ends) {
    LLMTRAIN_TRY(writer.append(ids.subspan(begin, end - begin)));
    LLMTRAIN_TRY(writer.end_document());
    begin = end;
  }
  return begin == ids.size() ? ok_status() : writer.append(ids.subspan(begin));
}

Status check_out(FileSystem& files, const PrepareOptions& options) {
  LLMTRAIN_ASSIGN(info, files.info(options.out));
  if (info && info->kind != FileKind::kDirectory) {
    return Error{
        ErrorCode::kUsage, fmt::format("{}: is no directory", options.out), "--out names a directory"};
  }
  if (!info) return make_directories(files, options.out);
  LLMTRAIN_ASSIGN(entries, files.list(options.out));
  const bool splits = options.valid_fraction > 0;
  LLMTRAIN_ASSIGN(taken, pair_exists(files, join_path(options.out, "tokens")));
  for (const DirectoryEntry& entry : entries) {
    const bool pair = entry.name.ends_with(".idx") || entry.name.ends_with(".bin");
    const bool ours = entry.name == "tokens.idx" || entry.name == "tokens.bin";
    const bool split = splits && (entry.name == "train" || entry.name == "valid");
    if ((!pair && !split) || (ours && !taken)) continue;
    if (options.overwrite && (split || (ours && !splits))) continue;
    return Error{
        ErrorCode::kUsage,
        fmt::format("{}: holds {} already", options.out, entry.name),
        ours || split ? "choose another directory, or give --overwrite" : "choose another directory"};
  }
  return ok_status();
}

// Encodes every input into one pair at `prefix`.
Result<TokenStatistics> write_pair(FileSystem& files,
                                   const PrepareOptions& options,
                                   const std::string& prefix,
                                   TextInput& input,
                                   PrepareReport& report) {
  using Pipeline = OrderedParallel<TextPiece, EncodedPiece>;
  const TokenType type = token_type_for(options.tokenizer->vocab_size());
  LLMTRAIN_ASSIGN(
      writer, IndexedWriter::create(files, {.prefix = prefix, .type = type, .replace = options.overwrite}));
  TokenStatistics statistics;
  std::int64_t bytes_done = 0;
  const auto next = [&]() -> Result<std::optional<TextPiece>> { return input.next(); };
  const auto make_work = [&]() -> Pipeline::Work {
    // Shared, because a std::function must be copyable; only its own thread uses it.
    std::shared_ptr<Encoder> encoder = options.tokenizer->make_encoder();
    return [&options, encoder](TextPiece piece) { return encode_piece(options, *encoder, piece); };
  };
  const auto write = [&](EncodedPiece piece) -> Status {
    LLMTRAIN_TRY(write_piece(piece, writer));
    statistics.add(piece.ids);
    report.texts.add(piece.counts);
    bytes_done += piece.file_bytes;
    if (options.progress) options.progress(bytes_done, input.num_bytes());
    return ok_status();
  };
  LLMTRAIN_TRY(Pipeline::run(options.num_threads, next, make_work, write));
  if (report.texts.texts == 0) {
    return Error{ErrorCode::kData,
                 fmt::format("the input holds no text: {} empty, {} blank, {} null were skipped",
                             report.texts.empty,
                             report.texts.blank,
                             report.texts.null),
                 "give files with text in them"};
  }
  LLMTRAIN_TRY(writer.finish());
  return statistics;
}

TokenFileSummary summary_of(const std::string& prefix,
                            std::int64_t num_documents,
                            const TokenStatistics& statistics,
                            const Tokenizer& tokenizer) {
  return {prefix,
          num_documents,
          statistics.num_tokens(),
          statistics.decoded_bytes(tokenizer),
          statistics.bits_per_token()};
}

// Copies tokens [begin, end) of `whole`, document by document, into their own pair.
Result<TokenFileSummary> copy_range(FileSystem& files,
                                    const PrepareOptions& options,
                                    const IndexedDataset& whole,
                                    std::int64_t begin,
                                    std::int64_t end,
                                    const std::string& name) {
  constexpr std::int64_t kBlock = 1 << 16;
  const std::string directory = join_path(options.out, name);
  LLMTRAIN_TRY(make_directories(files, directory));
  const std::string prefix = join_path(directory, "tokens");
  LLMTRAIN_ASSIGN(
      writer,
      IndexedWriter::create(files, {.prefix = prefix, .type = whole.type(), .replace = options.overwrite}));
  TokenStatistics statistics;
  std::vector<std::int32_t> ids;
  for (std::int64_t at = begin, document = document_at(whole, begin); at < end; ++document) {
    const std::int64_t document_end = std::min(whole.document_begin(document + 1), end);
    while (at < document_end) {
      ids.resize(static_cast<std::size_t>(std::min(kBlock, document_end - at)));
      LLMTRAIN_TRY(whole.read(at, ids));
      LLMTRAIN_TRY(writer.append(ids));
      statistics.add(ids);
      at += std::ssize(ids);
    }
    LLMTRAIN_TRY(writer.end_document());
  }
  LLMTRAIN_TRY(writer.finish());
  return summary_of(prefix, writer.num_documents(), statistics, *options.tokenizer);
}

Result<std::vector<TokenFileSummary>> split_pair(FileSystem& files,
                                                 const PrepareOptions& options,
                                                 const std::string& prefix) {
  LLMTRAIN_ASSIGN(whole, IndexedDataset::open(prefix));
  const std::int64_t cut = split_point(whole, options.valid_fraction);
  if (cut == 0 || cut == whole.num_tokens()) {
    return Error{ErrorCode::kData,
                 fmt::format("the {} split would hold no token: {} of {} tokens",
                             cut == 0 ? "train" : "valid",
                             options.valid_fraction,
                             whole.num_tokens()),
                 "give more text, or another --valid-fraction"};
  }
  LLMTRAIN_ASSIGN(train, copy_range(files, options, whole, 0, cut, "train"));
  LLMTRAIN_ASSIGN(valid, copy_range(files, options, whole, cut, whole.num_tokens(), "valid"));
  return std::vector{train, valid};
}

}  // namespace

Result<PrepareReport> prepare(FileSystem& files, const PrepareOptions& options) {
  if (!(options.valid_fraction >= 0 && options.valid_fraction < 1)) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--valid-fraction {}; allowed is 0 to below 1", options.valid_fraction),
                 "hold out a small share, such as 0.01"};
  }
  const Tokenizer& tokenizer = *options.tokenizer;
  LLMTRAIN_ASSIGN(input, TextInput::open(options.inputs, [&](std::string_view text, std::size_t target) {
                    return tokenizer.safe_cut(text, target);
                  }));
  LLMTRAIN_TRY(check_out(files, options));
  PrepareReport report;
  const bool splits = options.valid_fraction > 0;
  const std::string work = splits ? join_path(options.out, ".whole") : options.out;
  if (splits) LLMTRAIN_TRY(remove_tree(files, work));
  if (splits) LLMTRAIN_TRY(make_directories(files, work));
  const std::string prefix = join_path(work, "tokens");
  LLMTRAIN_ASSIGN(statistics, write_pair(files, options, prefix, input, report));
  if (splits) {
    auto parts = split_pair(files, options, prefix);
    LLMTRAIN_TRY(remove_tree(files, work));
    if (!parts) return std::move(parts).error();
    report.splits = std::move(parts).value();
  } else {
    report.splits.push_back(summary_of(prefix, report.texts.texts, statistics, tokenizer));
  }
  for (const TokenFileSummary& split : report.splits) {
    LLMTRAIN_TRY(write_provenance(files, options, report.texts, split));
  }
  return report;
}

}  // namespace llmtrain
