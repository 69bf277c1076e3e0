#include "llmtrain/data/indexed_writer.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/data/buffered_file.hpp"
#include "llmtrain/data/index_format.hpp"

namespace llmtrain {
namespace {

// Lengths are spooled while documents come in; the top bit says that the document goes on.
constexpr std::uint32_t kContinues = std::uint32_t{1} << 31;

struct IdRange {
  std::int64_t least;
  std::int64_t most;
};

IdRange range_of(TokenType type) {
  switch (type) {
    case TokenType::kUint8: return {0, UINT8_MAX};
    case TokenType::kInt8: return {INT8_MIN, INT8_MAX};
    case TokenType::kInt16: return {INT16_MIN, INT16_MAX};
    case TokenType::kUint16: return {0, UINT16_MAX};
    case TokenType::kInt32:
    case TokenType::kInt64: return {INT32_MIN, INT32_MAX};
  }
  return {0, -1};
}

Status put_id(BufferedFile& file, TokenType type, std::int32_t id) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8: return file.put(static_cast<std::uint8_t>(id));
    case TokenType::kInt16:
    case TokenType::kUint16: return file.put(static_cast<std::uint16_t>(id));
    case TokenType::kInt32: return file.put(id);
    case TokenType::kInt64: return file.put(static_cast<std::int64_t>(id));
  }
  return ok_status();
}

}  // namespace

struct IndexedWriter::State {
  FileSystem* files = nullptr;
  Options options;
  std::optional<BufferedFile> bin;
  std::optional<BufferedFile> lengths;
  std::int64_t open_length = 0;  // tokens of the open sequence
  bool open_document = false;
  std::int64_t num_tokens = 0;
  std::int64_t num_sequences = 0;
  std::int64_t num_documents = 0;
  bool finished = false;

  std::string path(const char* extension) const { return options.prefix + extension; }

  ~State() {
    if (finished) return;
    for (const char* extension : {".bin.tmp", ".idx.tmp", ".lengths.tmp"}) {
      [[maybe_unused]] const Status ignored =
          files->remove_file(path(extension));  // a later run empties them too
    }
  }

  Status end_sequence(bool continues) {
    ++num_sequences;
    const auto word = static_cast<std::uint32_t>(open_length) | (continues ? kContinues : 0);
    open_length = 0;
    return lengths->put(word);
  }

  // Calls `visit(length, continues)` for every sequence, in order.
  Status each_sequence(const std::function<Status(std::int32_t, bool)>& visit) const {
    LLMTRAIN_ASSIGN(spool, files->open(path(".lengths.tmp")));
    std::vector<std::uint32_t> words(1 << 16);
    for (std::int64_t done = 0; done < num_sequences;) {
      const auto bytes = std::as_writable_bytes(std::span(words));
      LLMTRAIN_ASSIGN(got, spool->read_at(static_cast<std::uint64_t>(done) * 4, bytes));
      if (got < 4)
        return Error{ErrorCode::kStorage, fmt::format("{}: ends early", path(".lengths.tmp")), "try again"};
      for (std::size_t i = 0; i < got / 4; ++i) {
        LLMTRAIN_TRY(visit(static_cast<std::int32_t>(words[i] & ~kContinues), (words[i] & kContinues) != 0));
      }
      done += static_cast<std::int64_t>(got / 4);
    }
    return ok_status();
  }

  Status write_index() const {
    LLMTRAIN_ASSIGN(idx, BufferedFile::create(*files, path(".idx.tmp")));
    LLMTRAIN_TRY(idx.put(index_format::kMagic));
    LLMTRAIN_TRY(idx.put(std::uint64_t{1}));
    LLMTRAIN_TRY(idx.put(static_cast<std::uint8_t>(options.type)));
    LLMTRAIN_TRY(idx.put(static_cast<std::uint64_t>(num_sequences)));
    LLMTRAIN_TRY(idx.put(static_cast<std::uint64_t>(num_documents + 1)));
    LLMTRAIN_TRY(each_sequence([&](std::int32_t length, bool) { return idx.put(length); }));
    std::int64_t pointer = 0;
    LLMTRAIN_TRY(each_sequence([&](std::int32_t length, bool) {
      const Status status = idx.put(pointer);
      pointer += std::int64_t{length} * bytes_of(options.type);
      return status;
    }));
    std::int64_t sequences = 0;
    LLMTRAIN_TRY(idx.put(sequences));
    LLMTRAIN_TRY(each_sequence([&](std::int32_t, bool continues) {
      ++sequences;
      return continues ? ok_status() : idx.put(sequences);
    }));
    return idx.commit();
  }
};

TokenType token_type_for(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::kUint16 : TokenType::kInt32;
}

Result<bool> pair_exists(FileSystem& files, const std::string& prefix) {
  LLMTRAIN_ASSIGN(idx, files.info(prefix + ".idx"));
  if (idx) return true;
  LLMTRAIN_ASSIGN(bin, files.info(prefix + ".bin"));
  LLMTRAIN_ASSIGN(unfinished, files.info(prefix + ".idx.tmp"));
  return bin && !unfinished;
}

Result<IndexedWriter> IndexedWriter::create(FileSystem& files, Options options) {
  auto state = std::make_unique<State>();
  state->files = &files;
  state->options = std::move(options);
  LLMTRAIN_ASSIGN(taken, pair_exists(files, state->options.prefix));
  if (taken && !state->options.replace) {
    state->finished = true;  // nothing of ours to remove
    return Error{ErrorCode::kUsage,
                 fmt::format("{}: holds a pair already", state->options.prefix),
                 "choose another directory, or ask to overwrite it"};
  }
  LLMTRAIN_ASSIGN(bin, BufferedFile::create(files, state->path(".bin.tmp")));
  LLMTRAIN_ASSIGN(lengths, BufferedFile::create(files, state->path(".lengths.tmp")));
  state->bin = std::move(bin);
  state->lengths = std::move(lengths);
  return IndexedWriter(std::move(state));
}

IndexedWriter::IndexedWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
IndexedWriter::IndexedWriter(IndexedWriter&&) noexcept = default;
IndexedWriter& IndexedWriter::operator=(IndexedWriter&&) noexcept = default;
IndexedWriter::~IndexedWriter() = default;

std::int64_t IndexedWriter::num_tokens() const {
  return state_->num_tokens;
}
std::int64_t IndexedWriter::num_documents() const {
  return state_->num_documents;
}

Status IndexedWriter::append(std::span<const std::int32_t> ids) {
  State& state = *state_;
  state.open_document = true;
  const IdRange range = range_of(state.options.type);
  for (const std::int32_t id : ids) {
    if (id < range.least || id > range.most) {
      return Error{ErrorCode::kData,
                   fmt::format("{}: token {} has id {}; {} holds {} to {}",
                               state.path(".bin"),
                               state.num_tokens,
                               id,
                               to_string(state.options.type),
                               range.least,
                               range.most),
                   "choose a wider type for this vocabulary"};
    }
    if (state.open_length == state.options.max_sequence) LLMTRAIN_TRY(state.end_sequence(true));
    LLMTRAIN_TRY(put_id(*state.bin, state.options.type, id));
    ++state.open_length;
    ++state.num_tokens;
  }
  return ok_status();
}

Status IndexedWriter::end_document() {
  ++state_->num_documents;
  state_->open_document = false;
  return state_->end_sequence(false);
}

Status IndexedWriter::finish() {
  State& state = *state_;
  LLMTRAIN_CHECK(!state.open_document && !state.finished, "{} is not complete", state.options.prefix);
  FileSystem& files = *state.files;
  LLMTRAIN_TRY(state.bin->commit());
  LLMTRAIN_TRY(state.lengths->close());
  LLMTRAIN_TRY(state.write_index());
  const std::string directory = parent_path(state.options.prefix);
  // An old index goes first: it must never stand beside the new tokens.
  LLMTRAIN_ASSIGN(old, files.info(state.path(".idx")));
  if (old) {
    LLMTRAIN_TRY(files.remove_file(state.path(".idx")));
    LLMTRAIN_TRY(files.sync_directory(directory));
  }
  LLMTRAIN_TRY(files.replace(state.path(".bin.tmp"), state.path(".bin")));
  LLMTRAIN_TRY(files.sync_directory(directory));
  LLMTRAIN_TRY(files.replace(state.path(".idx.tmp"), state.path(".idx")));
  state.finished = true;
  LLMTRAIN_TRY(files.remove_file(state.path(".lengths.tmp")));
  return files.sync_directory(directory);
}

}  // namespace llmtrain
